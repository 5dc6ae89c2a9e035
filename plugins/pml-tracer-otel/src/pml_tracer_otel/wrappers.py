"""Wrappers: what the chain knows and spans do not tell."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from pml_hookspecs import Outcome, Phase, ToolCall, ToolId

from .active_executions import OWN, ActiveExecution, ServerCall
from .context import with_context

if TYPE_CHECKING:
    from pml_hookspecs import CallNext, Catalog, Run, Task

    from .active_tracers import ActiveTracer


class ClientTraceWrapper:
    """Outermost: who asks, and which trace the client belongs to. Implements :class:`pml_hookspecs.Wrapper`."""

    phase = Phase.OBSERVE

    def __init__(self, tracer: ActiveTracer) -> None:
        self._seen = tracer.seen

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        """Take note, and hand on."""
        self._seen(task, run)
        return call_next(task, run)


class ServerCallWrapper:
    """Innermost: each call to a server is a span of its own, and the server is told. Implements ``Wrapper``."""

    phase = Phase.ADAPT

    def __init__(self, tracer: ActiveTracer, catalog: Catalog) -> None:
        self._tracer, self._catalog = tracer, catalog
        self._tells, self._baggage = tracer.options.propagate, tracer.options.baggage
        self._configured: set[str] = set()

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        """Tell the server, if one is called; hand on all else."""
        if not isinstance(task, ToolCall) or task.tool.startswith(OWN):
            return call_next(task, run)
        watched = self._tracer.running(run.id)
        if watched is None or not self._is_configured(watched.server):
            return call_next(task, run)
        return self._call(task, run, call_next, watched)

    def _is_configured(self, server: str) -> bool:
        """False for what a plugin publishes: such tools run in this process."""
        if server in self._configured:
            return True
        # Only what is configured is remembered: other names are the clients', and a server can be added.
        self._configured = {status.name for status in self._catalog.servers()}
        return server in self._configured

    async def _call(self, task: ToolCall, run: Run, call_next: CallNext, watched: ActiveExecution) -> Outcome:
        call, outcome = ServerCall(task, watched, known=self._catalog.get(ToolId(task.tool)) is not None), None
        if self._tells:
            task = with_context(task, watched.trace, call.span_id, baggage=self._baggage)
        try:
            outcome = await call_next(task, run)
        finally:
            self._tracer.called(call, outcome)
        return outcome
