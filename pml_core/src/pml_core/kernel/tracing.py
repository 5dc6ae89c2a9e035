"""One span per dispatched task, handed to every tracer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CodeRun, Ended, Outcome, PluginTask, ServerRequest, Span, Task, ToolCall, Tracer, Workflow

if TYPE_CHECKING:
    from .execution_run import ExecutionRun

SILENCE_S = 60.0
"""A tracer that fails is heard once in this time."""


@dataclass(frozen=True, slots=True)
class NamedTracer:
    """A tracer and its plugin's name."""

    plugin: str
    tracer: Tracer


def span_name(task: Task) -> str:
    """Low-cardinality name of the work: MCP's method where there is one."""
    if isinstance(task, ToolCall):
        return "tools/call"
    if isinstance(task, Workflow):
        return "workflow"
    if isinstance(task, ServerRequest):
        return task.method
    if isinstance(task, PluginTask):
        return task.type
    return "code" if isinstance(task, CodeRun) else "capability"


class Tracing:
    """Starts and ends spans; a tracer's exception changes nothing for the request."""

    def __init__(self, tracers: Sequence[NamedTracer], log: Any) -> None:
        self._log = log
        self._starts = [(named.plugin, named.tracer.started) for named in tracers]
        self._ends = [(named.plugin, named.tracer.ended) for named in tracers]
        self._last_heard: dict[str, float] = {}

    def start(self, task: Task, run: ExecutionRun) -> Span | None:
        """A span for ``task``; None when nobody watches."""
        if not self._starts:
            return None
        span = Span(
            trace_id=run.trace_id,
            span_id=run.span_id,
            parent_id=run.parent_span_id,
            name=span_name(task),
            kind="server" if run.parent is None else "internal",
            execution=run.id,
            start_ns=time.time_ns(),
            attributes={"gen_ai.tool.name": task.tool} if isinstance(task, ToolCall) else {},
        )
        for plugin, started in self._starts:
            try:
                started(span)
            except Exception as exc:
                self._fault(plugin, exc)
        return span

    def end(self, span: Span | None, outcome: Outcome) -> None:
        """End ``span`` once."""
        if span is None:
            return
        attributes = {} if outcome.failure is None else {"error.type": outcome.failure.code}
        # Not before the start, even when the clock was set back.
        end_ns = max(time.time_ns(), span.start_ns)
        finished = Ended(span=span, end_ns=end_ns, status=outcome.status, attributes=attributes)
        for plugin, ended in self._ends:
            try:
                ended(finished)
            except Exception as exc:
                self._fault(plugin, exc)

    def _fault(self, plugin: str, exc: Exception) -> None:
        now = time.monotonic()
        if now - self._last_heard.get(plugin, -SILENCE_S) >= SILENCE_S:
            self._last_heard[plugin] = now
            self._log.error("tracer failed", plugin=plugin, error=repr(exc), silent_for_s=SILENCE_S)
