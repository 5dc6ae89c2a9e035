"""The contract every tracer keeps. Subclass and provide ``tracer_type``; or run ``pytest --pml-contract``."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pml_hookspecs import Status, replace

from .fakes import FakeServices
from .records import ended, execution

if TYPE_CHECKING:
    from pml_hookspecs import Ended, Tracer

CALL_S = 100e-6
"""Longest that one call may take in the middle."""
RARE_CALL_S = 5e-3
"""Longest that one call in a hundred may take."""


class SpanSink:
    """A store that only takes spans."""

    def __init__(self) -> None:
        self.spans: list[Ended] = []
        self.problem: Exception | None = None
        """Raised instead of taking any."""

    @property
    def traces(self) -> SpanSink:
        """The part that takes spans."""
        return self

    async def append(self, spans: Sequence[Ended]) -> None:
        """Keep ``spans``, those seen before too."""
        await asyncio.sleep(0)
        if self.problem is not None:
            raise self.problem
        self.spans += spans


class _Forgetful(list[Any]):
    """The lines of a log that nobody keeps."""

    def append(self, line: Any) -> None:
        """Forget ``line``."""


def observe(tracer: Tracer, spans: Sequence[Ended]) -> None:
    """Start and end ``spans``, each child within its parent's time, the first of a pair ending first."""
    for pair in zip(spans[::2], spans[1::2], strict=True):
        for each in pair:
            tracer.started(each.span)
        for each in pair:
            tracer.ended(each)


@pytest.mark.anyio
class TracerContract:
    """What the gateway relies on, wherever the spans go."""

    group = "pml.tracer"
    flush_limit_s = 5.0
    """Longest that a flush may take."""
    meanwhile_s = 10.0
    """Longest until spans are delivered without being asked for."""
    most_buffered = 100_000
    """Spans that a bounded buffer may hold."""

    @pytest.fixture
    def tracer_type(self) -> Any:
        """The driver class."""
        raise NotImplementedError("override: return the tracer class to test")

    @pytest.fixture
    def settings(self, tracer_type: Any) -> Any:
        """Settings to construct it with."""
        return tracer_type.settings_type() if hasattr(tracer_type, "settings_type") else None

    @pytest.fixture
    def sink(self) -> SpanSink:
        """The store that the tracer may use."""
        return SpanSink()

    @pytest.fixture
    def services(self, sink: SpanSink) -> FakeServices:
        """What the tracer gets."""
        store: Any = sink
        return FakeServices(store=store)

    @pytest.fixture
    async def tracer(self, tracer_type: Any, settings: Any, services: FakeServices) -> AsyncIterator[Any]:
        """A tracer that is up."""
        tracer = tracer_type(settings, services)
        if hasattr(tracer, "__aenter__"):
            await tracer.__aenter__()
        yield tracer
        await services.stop()
        if hasattr(tracer, "__aexit__"):
            await tracer.__aexit__(None, None, None)

    @pytest.fixture
    def delivered(self, arrivals: Callable[[], Counter[str]]) -> Callable[[], Counter[str]]:
        """Tells how often each span id has arrived. Override when spans go neither to the store nor to the log."""
        return arrivals

    @pytest.fixture
    def arrivals(self, sink: SpanSink, services: FakeServices) -> Callable[[], Counter[str]]:
        """How often each span id has arrived in the store and the log."""
        return lambda: Counter(
            [e.span.span_id for e in sink.spans]
            + [fields["span_id"] for _, _, fields in services.log.lines if "span_id" in fields]
        )

    @pytest.fixture
    def dropped(self, tracer: Any) -> Callable[[], int]:
        """Tells how many spans were dropped. Override when the tracer counts them elsewhere than in ``dropped``."""
        return lambda: int(tracer.dropped)

    def test_is_constructed_without_an_event_loop(self, tracer_type: Any, settings: Any) -> None:
        tracer_type(settings, FakeServices())

    async def test_starting_and_ending_a_span_do_not_block(self, tracer: Tracer) -> None:
        taken = []
        for n in range(1000):
            each, start = ended(n, execution(1).id), time.perf_counter()
            answers: tuple[Any, Any] = (tracer.started(each.span), tracer.ended(each))  # type: ignore[func-returns-value]
            taken.append((time.perf_counter() - start) / 2)
            assert answers == (None, None)
        assert statistics.median(taken) <= CALL_S

    async def test_no_call_does_the_work_of_many(self, tracer: Tracer) -> None:
        # Three tries: a busy machine makes one in a hundred slow now and then, a tracer that ships does it each time.
        assert min(self._rare_call_s(tracer, n) for n in range(0, 3000, 1000)) <= RARE_CALL_S

    @staticmethod
    def _rare_call_s(tracer: Tracer, first: int) -> float:
        taken = []
        for n in range(first, first + 1000):
            each, start = ended(n, execution(1).id), time.perf_counter()
            tracer.started(each.span)
            tracer.ended(each)
            taken.append(time.perf_counter() - start)
        return sorted(taken)[-11]

    async def test_every_finished_span_is_delivered_once(
        self, tracer: Tracer, delivered: Callable[[], Counter[str]]
    ) -> None:
        spans = [ended(n, execution(n // 2).id, parent_id=f"{n - 1:016x}" if n % 2 else None) for n in range(300)]
        observe(tracer, spans[:200])
        await tracer.flush()
        observe(tracer, spans[200:])
        for _ in range(2):
            await tracer.flush()
            assert delivered() == Counter(e.span.span_id for e in spans)

    async def test_spans_are_delivered_while_the_gateway_runs(
        self, tracer: Tracer, delivered: Callable[[], Counter[str]]
    ) -> None:
        for spans in ([ended(n) for n in range(20)], [ended(n) for n in range(20, 40)]):
            observe(tracer, spans)
            async with asyncio.timeout(self.meanwhile_s):
                while not set(delivered()) >= {e.span.span_id for e in spans}:  # noqa: ASYNC110 - nothing else tells
                    await asyncio.sleep(0.01)

    async def test_spans_are_delivered_however_they_ended(
        self, tracer: Tracer, delivered: Callable[[], Counter[str]]
    ) -> None:
        for n, status in enumerate(Status):
            tracer.started(ended(n).span)
            tracer.ended(replace(ended(n), status=status, attributes={"error.type": "tool.failed"}))
        await tracer.flush()
        assert set(delivered()) == {ended(n).span.span_id for n in range(len(Status))}

    async def test_a_span_that_has_not_ended_is_not_delivered(
        self, tracer: Tracer, delivered: Callable[[], Counter[str]]
    ) -> None:
        tracer.started(ended(1).span)
        tracer.started(ended(2).span)
        tracer.ended(ended(2))
        await tracer.flush()
        assert set(delivered()) == {ended(2).span.span_id}

    async def test_a_flush_ends_in_time(self, tracer: Tracer) -> None:
        observe(tracer, [ended(n) for n in range(10_000)])
        async with asyncio.timeout(self.flush_limit_s):
            await tracer.flush()

    async def test_what_is_buffered_is_bounded(self, tracer: Tracer, sink: SpanSink, services: FakeServices) -> None:
        sink.problem = OSError("no space left on device")
        assert self._overflow(tracer, services) <= self.most_buffered

    async def test_what_is_dropped_is_counted(
        self, tracer: Tracer, sink: SpanSink, services: FakeServices, dropped: Callable[[], int]
    ) -> None:
        sink.problem = OSError("no space left on device")
        kept = self._overflow(tracer, services)
        # A tracer that keeps nothing back has nothing to drop.
        assert kept == 0 or dropped() == self.most_buffered + 1000 - kept

    def _overflow(self, tracer: Tracer, services: FakeServices) -> int:
        """End more spans than may be buffered while nothing can be delivered; how many of them are kept.

        They share an attribute, and whatever keeps a span refers to it. A tracer that copies spans keeps none by this.
        """
        services.log.lines = _Forgetful()
        mark: Any = ["held by every span that is kept"]
        before = sys.getrefcount(mark)
        each = None
        for n in range(self.most_buffered + 1000):
            each = ended(n, attributes={"mark": mark})
            tracer.started(each.span)
            tracer.ended(each)
        del each
        return sys.getrefcount(mark) - before

    async def test_a_store_out_of_order_raises_nothing(self, tracer: Tracer, sink: SpanSink) -> None:
        sink.problem = OSError("no space left on device")
        observe(tracer, [ended(n) for n in range(10)])
        async with asyncio.timeout(self.flush_limit_s):
            await tracer.flush()

    async def test_a_missing_store_raises_nothing(self, tracer_type: Any, settings: Any) -> None:
        services = FakeServices()
        tracer = tracer_type(settings, services)
        if hasattr(tracer, "__aenter__"):
            await tracer.__aenter__()
        observe(tracer, [ended(n) for n in range(10)])
        async with asyncio.timeout(self.flush_limit_s):
            await tracer.flush()
        await services.stop()
        if hasattr(tracer, "__aexit__"):
            await tracer.__aexit__(None, None, None)
