from __future__ import annotations

import asyncio

import pytest

from pml_testing.fakes import FakeServices
from pml_testing.records import ended
from pml_testing.tracer import SpanSink
from pml_tracer_store import Settings, StoreTracer

pytestmark = pytest.mark.anyio
FULL = OSError("no space left on device")


@pytest.fixture
def sink():
    return SpanSink()


@pytest.fixture
def services(sink):
    return FakeServices(store=sink)


async def until(condition):
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - the background task has no other way to tell
            await asyncio.sleep(0.005)


class Picky(SpanSink):
    """Takes no batch with a span whose name is ``bad``; calls ``before`` ahead of every one."""

    def __init__(self, before=lambda: None):
        super().__init__()
        self.before = before

    async def append(self, spans):
        self.before()
        if any(e.span.name == "bad" for e in spans):
            raise TypeError("object is not JSON")
        await super().append(spans)


async def test_a_full_buffer_drops_and_counts(services, sink):
    tracer = StoreTracer(Settings(buffer_spans=3), services)
    for n in range(5):
        tracer.ended(ended(n))
    await tracer.flush()
    assert (tracer.dropped, sink.spans) == (2, [ended(0), ended(1), ended(2)])
    tracer.ended(ended(9))
    await tracer.flush()
    assert sink.spans[-1] == ended(9)


async def test_spans_wait_for_a_store_that_is_out_of_order(services, sink):
    tracer = StoreTracer(Settings(interval_ms=1), services)
    sink.problem = FULL
    async with tracer:
        for n in range(2500):
            tracer.ended(ended(n))
        await tracer.flush()
        assert not sink.spans
        sink.problem = None
        await until(lambda: len(sink.spans) == 2500)
        await services.stop()
    assert sink.spans == [ended(n) for n in range(2500)]
    assert tracer.dropped == 0


async def test_a_store_that_stays_out_of_order_is_heard_of_once(services, sink):
    tracer = StoreTracer(Settings(), services)
    sink.problem = FULL
    tracer.ended(ended(1))
    for _ in range(5):
        await tracer.flush()
    ((level, event, fields),) = services.log.lines
    assert (level, event) == ("error", "the store takes no spans")
    assert (fields["error"], fields["waiting"], fields["dropped"]) == (repr(FULL), 1, 0)


async def test_a_span_that_cannot_be_stored_is_dropped_alone():
    sink = Picky()
    services = FakeServices(store=sink)
    tracer = StoreTracer(Settings(), services)
    for n in range(10):
        tracer.ended(ended(n, name="bad" if n in (3, 9) else "good"))
    await tracer.flush()
    assert [e.span.span_id for e in sink.spans] == [f"{n:016x}" for n in (0, 1, 2, 4, 5, 6, 7, 8)]
    assert tracer.dropped == 2
    assert [event for _, event, _ in services.log.lines] == ["a span cannot be stored"]


async def test_a_store_that_fails_among_single_spans_loses_none():
    calls = []

    def fail_at_the_fourth():
        calls.append(None)
        if len(calls) == 4:
            raise FULL

    sink = Picky(fail_at_the_fourth)
    tracer = StoreTracer(Settings(), FakeServices(store=sink))
    for n in range(6):
        tracer.ended(ended(n, name="bad" if n == 4 else "good"))
    await tracer.flush()
    await tracer.flush()
    assert [e.span.span_id for e in sink.spans] == [f"{n:016x}" for n in (0, 1, 2, 3, 5)]
    assert tracer.dropped == 1


async def test_leaving_delivers_the_rest(services, sink):
    async with StoreTracer(Settings(interval_ms=60_000), services) as tracer:
        tracer.ended(ended(1))
        await services.stop()
    assert sink.spans == [ended(1)]


async def test_spans_that_ended_before_it_was_up_are_delivered(services, sink):
    tracer = StoreTracer(Settings(interval_ms=1), services)
    tracer.ended(ended(1))
    async with tracer:
        await until(lambda: sink.spans)
        await services.stop()


async def test_flushes_at_the_same_time_deliver_once(services, sink):
    async with StoreTracer(Settings(interval_ms=1), services) as tracer:
        for n in range(3000):
            tracer.ended(ended(n))
        await asyncio.gather(*(tracer.flush() for _ in range(5)))
        await services.stop()
    assert sink.spans == [ended(n) for n in range(3000)]


async def test_a_delivery_that_is_cancelled_loses_nothing(services, sink):
    tracer = StoreTracer(Settings(), services)
    tracer.ended(ended(1))
    flushing = asyncio.ensure_future(tracer.flush())
    await asyncio.sleep(0)
    flushing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await flushing
    await tracer.flush()
    assert ended(1) in sink.spans


async def test_nothing_runs_while_there_is_nothing_to_deliver(services):
    async with StoreTracer(Settings(interval_ms=1), services) as tracer:
        tracer.ended(ended(1))
        await until(lambda: not tracer._buffer and not tracer._some.is_set())
        flushed = []
        tracer.flush = lambda: flushed.append(None)
        await asyncio.sleep(0.05)
        assert not flushed
        del tracer.flush
        await services.stop()


async def test_without_services_it_only_buffers():
    async with StoreTracer() as tracer:
        tracer.ended(ended(1))
        await tracer.flush()
    assert tracer.dropped == 0
