"""Collectors that are down, slow or out of order, and what that costs."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
import threading
import time

import pytest

from pml_testing.fakes import FakeServices
from pml_testing.gateway import Client, ScriptedServer, running
from pml_testing.records import ended, execution
from pml_testing.work import counted
from pml_tracer_otel import OtelTracer, Settings, plugin
from pml_tracer_otel.active_tracers import tracer_of

pytestmark = pytest.mark.anyio


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


async def until(condition):
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - a thread tells nothing to a loop
            await asyncio.sleep(0.005)


async def until_async(tracer, condition):
    async with asyncio.timeout(30):
        while not condition(await tracer.health()):  # noqa: ASYNC110 - a thread tells nothing to a loop
            await asyncio.sleep(0.005)


@pytest.fixture
def services():
    return FakeServices()


def observe(tracer, *numbers):
    for n in numbers:
        each = ended(n, execution(n).id)
        tracer.started(each.span)
        tracer.ended(each)


def said(services, level="warning"):
    return [event for at, event, _ in services.log.lines if at == level]


def settings(endpoint, **more):
    return Settings(**{"endpoint": endpoint, "interval_s": 0.01, "metrics": False, **more})


async def test_a_collector_that_is_down_costs_calls_nothing_and_one_warning(new_receiver, services):
    port = free_port()
    async with OtelTracer(settings(f"http://127.0.0.1:{port}", timeout_s=1.5), services) as tracer:
        with counted() as work:
            observe(tracer, *range(100))
        assert work.calls < 5000
        await until(lambda: tracer.dropped == 100)
        observe(tracer, *range(100, 200))
        await until(lambda: tracer.dropped == 200)
        assert said(services) == ["the collector takes no traces; trying on"]
        assert (await tracer.health())["traces"]
        receiver = new_receiver(port)
        observe(tracer, 200)
        await until(lambda: "the collector takes traces again" in said(services, "info"))
        assert [span.id for span in receiver.spans] == [f"{200:016x}"]
        assert services.log.lines[-1][2] == {"dropped": 200}
    assert (await tracer.health())["exported"] == 1


async def test_spans_that_the_collector_has_no_time_for_are_sent_again(receiver, services):
    answers = iter([503, 200])
    receiver.status = lambda: next(answers)
    async with OtelTracer(settings(receiver.endpoint), services) as tracer:
        observe(tracer, 1)
        await until(lambda: receiver.spans)
        await until(lambda: said(services, "info"))
        assert tracer.dropped == 0


async def test_what_a_collector_refuses_is_dropped_and_counted(receiver, services):
    receiver.status = lambda: 400
    async with OtelTracer(settings(receiver.endpoint), services) as tracer:
        observe(tracer, *range(10))
        await until(lambda: tracer.dropped == 10)
        observe(tracer, *range(10, 20))
        await until(lambda: tracer.dropped == 20)
        health = await tracer.health()
        assert "400" in health["traces"]
        assert (health["exported"], health["waiting"]) == (0, 0)
    first, last = (line for line in services.log.lines if line[0] == "warning")
    assert first[1] == "the collector takes no traces; trying on"
    assert last[1:] == ("spans were not exported before the end", {"spans": 20})


async def test_a_collector_without_metrics_still_gets_traces(receiver, services):
    receiver.status = lambda: 404 if receiver.paths[-1].endswith("metrics") else 200
    chosen = settings(receiver.endpoint, metrics=True, metrics_interval_s=0.1)
    async with OtelTracer(chosen, services) as tracer:
        observe(tracer, 1)
        await until(lambda: said(services))
        observe(tracer, 2)
        await tracer.flush()
    assert len(receiver.spans) == 2
    assert said(services) == ["the collector takes no metrics; trying on"]


async def test_a_slow_collector_holds_up_neither_calls_nor_the_end(receiver, services):
    receiver.go_on.clear()
    chosen = settings(receiver.endpoint, exit_s=0.3, timeout_s=60, buffer_spans=20, batch_spans=5)
    before = time.monotonic()
    async with OtelTracer(chosen, services) as tracer:
        observe(tracer, *range(50))
        assert (await tracer.health())["dropped"] == 30
        await tracer.flush()
    assert time.monotonic() - before < chosen.timeout_s / 2
    assert tracer.dropped == 50
    assert said(services) == [
        "the collector is slow; not everything was exported in time",
        "spans were not exported before the end",
    ]


async def test_more_than_can_be_exported_is_said_once_a_minute(receiver, services):
    async with OtelTracer(settings(receiver.endpoint, buffer_spans=5, interval_s=60), services) as tracer:
        for _ in range(3):
            observe(tracer, *range(50))
            await tracer.flush()
        assert tracer.dropped + len(receiver.spans) == 150
    assert said(services) == ["more spans than can be exported; some are dropped"]


async def test_a_span_that_is_none_is_dropped_alone(receiver, services):
    async with OtelTracer(settings(receiver.endpoint), services) as tracer:
        for n, span_id in enumerate(("1" * 16, "not hexadecimal", "3" * 16)):
            each = ended(
                n, span_id=span_id, attributes={"odd": object() if n == 9 else "\ud800" * 20_000, "big": 1 << 70}
            )
            tracer.started(each.span)
            tracer.ended(each)
        await tracer.flush()
        assert [span.id for span in receiver.spans] == ["1" * 16, "3" * 16]
        assert len(receiver.spans[0].attributes["odd"]) == 16_384
        assert receiver.spans[0].attributes["big"] == str(1 << 70)
        assert tracer.dropped == 1


async def test_children_that_outlive_their_parent_stay_in_its_trace(receiver, services):
    async with OtelTracer(settings(receiver.endpoint), services) as tracer:
        parent, child = ended(1, execution(1).id), ended(2, execution(2).id, parent_id=f"{1:016x}", kind="internal")
        tracer.started(parent.span)
        tracer.started(child.span)
        tracer.ended(parent)
        tracer.ended(child)
        await tracer.flush()
    assert {span.id: span.parent for span in receiver.spans} == {f"{1:016x}": None, f"{2:016x}": f"{1:016x}"}


async def test_what_exporters_log_goes_nowhere_else(services, caplog, capfd):
    port = free_port()
    async with OtelTracer(settings(f"http://127.0.0.1:{port}", timeout_s=0.5), services) as tracer:
        observe(tracer, 1)
        await until(lambda: tracer.dropped)
    assert not [r for r in caplog.records if r.name.startswith("opentelemetry")]
    assert capfd.readouterr().err == ""
    assert logging.getLogger("opentelemetry.exporter").propagate


async def test_metrics_go_out_while_the_gateway_runs_and_as_changes_where_wanted(receiver, services, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta")
    statuses = iter([200, 400, 200, 200])
    receiver.status = lambda: next(statuses) if receiver.paths[-1].endswith("metrics") else 200
    chosen = settings(receiver.endpoint, metrics=True, traces=False, metrics_interval_s=300)
    async with OtelTracer(chosen, services) as tracer:
        for first in (0, 10, 20, 30):
            observe(tracer, *range(first, first + 10))
            await tracer.flush()
    # What was refused is in the next.
    counted = [receiver.metrics(n)["pml.executions"][0] for n in range(len(receiver.metric_requests))]
    assert [point.value for point in counted] == [10, 20, 10]
    assert all(point.delta for point in counted)
    assert [receiver.metrics(n)["pml.execution.duration"][0].count for n in range(3)] == [10, 20, 10]


async def test_metrics_are_exported_at_their_interval(receiver, services):
    async with OtelTracer(settings(receiver.endpoint, metrics=True, metrics_interval_s=0.1), services) as tracer:
        observe(tracer, 1)
        await until(lambda: len(receiver.metric_requests) >= 2)
    assert not receiver.metrics(0)["pml.executions"][0].delta


async def test_nothing_is_left_running(receiver, services):
    async with OtelTracer(settings(receiver.endpoint), services) as tracer:
        observe(tracer, 1)
        await tracer.flush()
        assert any(thread.name == "pml-otel" for thread in threading.enumerate())
    assert not any(thread.name.startswith("pml-otel") for thread in threading.enumerate())
    observe(tracer, 2)
    await tracer.flush()
    assert tracer.dropped == 0


async def test_calls_do_not_wait_for_a_collector_that_never_answers(receiver):
    receiver.go_on.clear()
    used = {("tracer", "otel"): OtelTracer, ("hooks", "otel"): plugin}
    table = {"endpoint": receiver.endpoint, "interval_s": 0.01, "exit_s": 0.1}
    server = ScriptedServer()
    async with running({"files": server}, plugins=used, tables={"otel": table}, tracers=("otel",)) as gateway:
        client = Client(gateway)
        await client.initialize()
        async with asyncio.timeout(30):
            for _ in range(200):
                await client.call("files__read_file")
        await until(lambda: receiver.paths)
        tracer = tracer_of(gateway.assembly.services("otel"))
        assert (await tracer.health())["waiting"] == 400
        receiver.go_on.set()
        await until(lambda: len(receiver.spans) == 400)
        await until_async(tracer, lambda health: health["waiting"] == 0)


async def test_the_distribution_is_light_until_it_is_used():
    script = (
        "import json, sys, pml_tracer_otel.plugin\n"
        "from pml_tracer_otel import OtelTracer\n"
        "OtelTracer(None, None)\n"
        "print(json.dumps([m for m in sys.modules if m.startswith(('opentelemetry', 'google', 'requests', 'grpc'))]))"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert json.loads(out) == []
