from __future__ import annotations

import asyncio
import logging
import statistics
import time

import pytest
import structlog

from pml_hookspecs import Status, replace
from pml_testing.fakes import FakeServices
from pml_testing.records import ended
from pml_tracer_log import LogTracer

FAST = ended(7, "an-execution", parent_id=f"{6:016x}", kind="internal", attributes={"gen_ai.tool.name": "files:read"})


class Quiet:
    """A log whose debug lines are off; saying one is a mistake."""

    def __init__(self):
        self.warnings = []

    def is_enabled_for(self, level):
        return level > logging.DEBUG

    def debug(self, event, **fields):
        raise AssertionError(event)

    def warning(self, event, **fields):
        self.warnings.append(fields)


def with_log(log):
    services = FakeServices()
    services.log = log
    return LogTracer(None, services)


def test_a_span_that_ended_well_is_one_debug_line_with_what_there_is_to_know():
    services = FakeServices()
    LogTracer(None, services).ended(replace(FAST, end_ns=FAST.span.start_ns + 1_234_567, attributes={"cached": True}))
    assert services.log.lines == [
        (
            "debug",
            "span ended",
            {
                "name": "tools/call",
                "kind": "internal",
                "status": "ok",
                "duration_ms": 1.235,
                "execution": "an-execution",
                "trace_id": f"{1:032x}",
                "span_id": f"{7:016x}",
                "parent_id": f"{6:016x}",
                "attributes": {"gen_ai.tool.name": "files:read", "cached": True},
            },
        )
    ]


@pytest.mark.parametrize("status", Status)
def test_only_ok_and_simulated_are_not_warned_of(status):
    services = FakeServices()
    LogTracer(None, services).ended(replace(FAST, status=status))
    ((level, _, fields),) = services.log.lines
    assert level == ("debug" if status in (Status.OK, Status.SIMULATED) else "warning")
    assert fields["status"] == status.value
    assert type(fields["status"]) is str


def test_attributes_may_have_names_that_loggers_use():
    services = FakeServices()
    LogTracer(None, services).ended(replace(FAST, attributes={"event": 1, "level": 2, "name": 3}))
    assert services.log.lines[0][2]["attributes"]["event"] == 1


def test_nothing_is_put_together_while_debug_lines_are_off():
    log = Quiet()
    tracer = with_log(log)
    tracer.ended(FAST)
    tracer.ended(replace(FAST, status=Status.ERROR))
    assert [fields["status"] for fields in log.warnings] == ["error"]


def test_a_span_costs_nearly_nothing_while_debug_lines_are_off():
    tracer, taken = with_log(Quiet()), []
    for _ in range(1000):
        start = time.perf_counter()
        tracer.ended(FAST)
        taken.append(time.perf_counter() - start)
    assert statistics.median(taken) <= 3e-6


def test_a_logger_that_cannot_be_asked_decides_for_itself():
    said = []

    class Plain:
        def debug(self, event, **fields):
            said.append(event)

        warning = debug

    with_log(Plain()).ended(FAST)
    assert said == ["span ended"]


@pytest.mark.parametrize(("level", "lines"), [(logging.DEBUG, 2), (logging.INFO, 1)])
def test_structlog_takes_the_lines(level, lines):
    kept = structlog.testing.LogCapture()
    log = structlog.wrap_logger(None, processors=[kept], wrapper_class=structlog.make_filtering_bound_logger(level))
    tracer = with_log(log.bind(plugin="log"))
    tracer.ended(FAST)
    tracer.ended(replace(FAST, status=Status.DENIED))
    assert len(kept.entries) == lines
    assert kept.entries[-1]["log_level"] == "warning"


def test_without_services_it_says_nothing():
    tracer = LogTracer()
    tracer.started(FAST.span)
    tracer.ended(FAST)
    tracer.ended(replace(FAST, status=Status.ERROR))
    asyncio.run(tracer.flush())
