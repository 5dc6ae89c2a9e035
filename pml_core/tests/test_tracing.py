from __future__ import annotations

from types import SimpleNamespace

import pytest

from pml_core.kernel import tracing
from pml_core.kernel.tracing import NamedTracer, Tracing, span_name
from pml_hookspecs import CapabilityRun, CodeRun, Failure, Status, ToolCall, Workflow
from pml_testing.fakes import FakeLog, outcome

TASK = ToolCall(id="t", tool="fs:read", arguments={"secret": "x"})
RUN = SimpleNamespace(trace_id="a" * 32, span_id="b" * 16, parent_span_id=None, parent=None, id="e")


class Tracer:
    """Keeps what it is told; raises when it is to."""

    def __init__(self, error=None) -> None:
        self.error, self.spans, self.ends = error, [], []

    def started(self, span):
        self.spans.append(span)
        if self.error:
            raise self.error

    def ended(self, ended):
        self.ends.append(ended)
        if self.error:
            raise self.error


def test_every_tracer_is_told_of_begin_and_end_and_never_of_arguments():
    tracers = [Tracer(), Tracer()]
    made = Tracing([NamedTracer(str(n), t) for n, t in enumerate(tracers)], FakeLog())
    span = made.start(TASK, RUN)
    made.end(span, outcome("t", {"x": 1}, Status.ERROR, failure=Failure("tool.failed", "no")))
    for tracer in tracers:
        assert tracer.spans == [span]
        (ended,) = tracer.ends
        assert (ended.span, ended.status, ended.attributes) == (span, Status.ERROR, {"error.type": "tool.failed"})
        assert ended.end_ns >= span.start_ns
    assert (span.trace_id, span.span_id, span.parent_id, span.execution) == ("a" * 32, "b" * 16, None, "e")
    assert (span.name, span.kind, span.attributes) == ("tools/call", "server", {"gen_ai.tool.name": "fs:read"})


def test_the_end_is_never_before_the_begin_even_when_the_clock_goes_back(monkeypatch):
    times = iter([2_000, 1_000])
    monkeypatch.setattr(tracing.time, "time_ns", lambda: next(times))
    tracer = Tracer()
    made = Tracing([NamedTracer("p", tracer)], FakeLog())
    made.end(made.start(TASK, RUN), outcome("t"))
    assert tracer.ends[0].end_ns == tracer.spans[0].start_ns == 2_000


def test_nobody_watching_means_no_span():
    made = Tracing([], FakeLog())
    assert made.start(TASK, RUN) is None
    made.end(None, outcome("t"))


def test_a_tracer_that_fails_does_not_stop_the_others_and_is_heard_once_a_minute(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(tracing.time, "monotonic", lambda: now[0])
    bad, good, log = Tracer(ValueError("x")), Tracer(), FakeLog()
    made = Tracing([NamedTracer("bad", bad), NamedTracer("good", good)], log)
    for _ in range(5):
        made.end(made.start(TASK, RUN), outcome("t"))
    assert (len(good.spans), len(good.ends), len(bad.ends)) == (5, 5, 5)
    assert [fields["plugin"] for _, _, fields in log.lines] == ["bad"]
    now[0] += tracing.SILENCE_S
    made.start(TASK, RUN)
    assert len(log.lines) == 2


@pytest.mark.parametrize(
    ("task", "name"),
    [
        (TASK, "tools/call"),
        (Workflow(id="w", tasks=()), "workflow"),
        (CodeRun(id="c", language="x", source=""), "code"),
        (CapabilityRun(id="c", capability_id="k"), "capability"),
    ],
)
def test_spans_are_named_by_the_kind_of_work(task, name):
    assert span_name(task) == name
