"""One span per dispatched task, handed to every tracer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pml_hookspecs import CodeRun, Ended, Outcome, Span, Task, ToolCall, Tracer, Workflow

from .identifiers import span_id

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
    return "code" if isinstance(task, CodeRun) else "capability"


class Tracing:
    """Starts and ends spans; a tracer's exception changes nothing for the request."""

    def __init__(self, tracers: Sequence[NamedTracer], log: Any) -> None:
        self._tracers, self._log = tracers, log
        self._last_heard: dict[str, float] = {}

    def start(self, task: Task, run: Any) -> Span | None:
        """A span for ``task``; None when nobody watches. ``run`` is the dispatcher's."""
        if not self._tracers:
            return None
        attributes = {"gen_ai.tool.name": task.tool} if isinstance(task, ToolCall) else {}
        span = Span(
            trace_id=run.trace_id,
            span_id=run.span_id,
            parent_id=run.parent_span_id,
            name=span_name(task),
            kind="server" if run.parent is None else "internal",
            execution=run.id,
            start_ns=time.time_ns(),
            attributes=attributes,
        )
        for named in self._tracers:
            try:
                named.tracer.started(span)
            except Exception as exc:
                self._fault(named.plugin, exc)
        return span

    def end(self, span: Span | None, outcome: Outcome) -> None:
        """End ``span`` once."""
        if span is None:
            return
        attributes = {} if outcome.failure is None else {"error.type": outcome.failure.code}
        end_ns = max(time.time_ns(), span.start_ns)
        ended = Ended(span=span, end_ns=end_ns, status=outcome.status, attributes=attributes)
        for named in self._tracers:
            try:
                named.tracer.ended(ended)
            except Exception as exc:
                self._fault(named.plugin, exc)

    def _fault(self, plugin: str, exc: Exception) -> None:
        now = time.monotonic()
        if now - self._last_heard.get(plugin, -SILENCE_S) >= SILENCE_S:
            self._last_heard[plugin] = now
            self._log.error("tracer failed", plugin=plugin, error=repr(exc), silent_for_s=SILENCE_S)


def new_span_ids(parent: Any | None, trace: str) -> tuple[str, str, str | None]:
    """``(trace_id, span_id, parent_span_id)`` for a run below ``parent``."""
    return (trace, span_id(), None) if parent is None else (parent.trace_id, span_id(), parent.span_id)
