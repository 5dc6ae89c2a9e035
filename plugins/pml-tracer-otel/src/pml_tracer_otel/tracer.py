"""Follows every execution, and hands what has ended to the thread that ships it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from .active_executions import ActiveExecution, ServerCall
from .active_tracers import is_down, is_up
from .context import Trace, baggage_of, kept, remote_of
from .measures import Measures, counter, level
from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Ended, ExecutionId, Json, Outcome, Run, Services, Span, Task

    from .collector.shipper import Shipper
    from .options import Options

LEAVE_S = 1.0
"""Longest that leaving waits for the thread, after everything was flushed [s]."""


class OtelTracer:
    """Implements :class:`pml_hookspecs.Tracer`: spans and metrics over OTLP.

    Nothing is exported on the event loop: a thread takes what has ended from a bounded buffer.
    """

    settings_type = Settings

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        """Without ``services`` nothing is said when something goes wrong."""
        self._settings = settings or Settings()
        self._services, self._arguments = services, self._settings.arguments
        self._open: dict[str, ActiveExecution] = {}
        self._running: dict[str, ActiveExecution] = {}
        self._shipper: Shipper | None = None
        self._live: Shipper | None = None
        self.measures = Measures()
        self.options: Options
        """What the settings and the environment come to; once it is up."""

    async def __aenter__(self) -> Self:
        import os

        from .options import options_of

        self.options = options_of(self._settings, os.environ)
        if self.options.watches:
            self._start()
        elif self._services is not None:
            self._services.log.info("OpenTelemetry is switched off by the configuration")
        return self

    def _start(self) -> None:
        from .collector.shipper import Shipper

        shipper = self._shipper = Shipper(self.options, self.measures, self._services)
        self.measures.levels += [
            level("pml.executions.active", "{execution}", "Executions under way.", lambda: len(self._open)),
            level("otel.sdk.processor.span.queue.size", "{span}", "Spans that wait.", lambda: len(shipper.queue)),
            counter(
                "otel.sdk.processor.span.processed", "{span}", "Spans for which there was no room.",
                lambda: [({"error.type": "queue_full"}, shipper.turned_away)],
            ),
            counter(
                "otel.sdk.exporter.span.exported", "{span}", "Spans exported, or not.",
                lambda: [({}, shipper.exported), ({"error.type": "rejected"}, shipper.failed)],
            ),
        ]  # fmt: skip
        shipper.start()
        self._live = shipper
        if self._services is not None:
            is_up(self._services, self)

    async def __aexit__(self, *exc: object) -> None:
        if self._services is not None:
            is_down(self._services, self)
        live, self._live = self._live, None
        if live is not None:
            await live.stop(LEAVE_S)

    # pml_hookspecs.Tracer

    def started(self, span: Span) -> None:
        """Remember ``span``: those inside it belong to its trace."""
        if self._live is None:
            return
        above = self._open.get(span.parent_id) if span.parent_id is not None else None
        watched = self._open[span.span_id] = ActiveExecution(span, self._begin(span) if above is None else above.trace)
        if span.execution is not None:
            self._running[span.execution] = watched

    def _begin(self, span: Span) -> Trace:
        options = self.options
        return Trace(span.trace_id, sampled=options.traces and kept(span.trace_id, options.sample_ratio))

    def ended(self, ended: Ended) -> None:
        """Count ``ended``, and have it shipped."""
        shipper, span = self._live, ended.span
        if shipper is None:
            return
        watched = self._open.pop(span.span_id, None) or ActiveExecution(span, self._begin(span))
        if span.execution is not None and self._running.get(span.execution) is watched:
            del self._running[span.execution]
        watched.ended = ended
        if watched.tool and self._services is not None:
            watched.known = self._services.catalog.get(watched.tool) is not None  # type: ignore[arg-type]
        self.measures.executed(watched)
        if watched.trace.sampled:
            shipper.put(watched)

    async def flush(self) -> None:
        """Deliver what is buffered, and the metrics; within ``exit_s``."""
        if self._live is not None:
            await self._live.flush(self._settings.exit_s)

    # What wrappers see

    def seen(self, task: Task, run: Run) -> None:
        """An execution enters the chain: from here on it is known who asks, and what a client told of its trace."""
        watched = self._running.get(run.id)
        if watched is None:
            return
        watched.session, watched.dry_run = run.session, run.dry_run
        if run.parent is None:
            # What is no tool call has no _meta of its own, and what another gateway goes on with not any more.
            extra = getattr(task, "extra", None) or {}
            self._follow(watched.trace, extra.get("_meta", run.meta))
        if self._arguments and watched.trace.sampled and (arguments := getattr(task, "arguments", None)):
            watched.arguments = self._redacted(arguments)

    def _follow(self, trace: Trace, meta: Any) -> None:
        """Go on with the trace that a client told of, or refer to it."""
        if not isinstance(meta, Mapping):
            return
        options = self.options
        remote = remote_of(meta)
        if not options.follow:
            trace.link = None if remote is None else (remote.trace_id, remote.span_id)
            return
        trace.baggage = baggage_of(meta)
        if remote is None:
            return
        trace.follow(remote)
        if options.traces:
            by_client = bool(remote.flags & 1)
            trace.sampled = by_client if options.client_decides else kept(trace.id, options.sample_ratio)

    def _redacted(self, arguments: Mapping[str, Any]) -> str:
        from pml_hookspecs import encode

        if self._services is None:
            return ""
        raw = encode(self._services.redact(arguments))
        most = self._settings.arguments_bytes
        return raw.decode() if len(raw) <= most else raw[:most].decode(errors="ignore") + "…"

    def running(self, execution: ExecutionId) -> ActiveExecution | None:
        """An execution under way; None when it is not watched."""
        return self._running.get(execution)

    def called(self, call: ServerCall, outcome: Outcome | None) -> None:
        """A call to a server is over; None when it was cancelled."""
        call.end(outcome)
        self.measures.called(call)
        if self._live is not None and call.parent.trace.sampled:
            self._live.put(call)

    # Health

    @property
    def dropped(self) -> int:
        """Spans that the collector will never see: there was no room, or it did not take them."""
        shipper = self._shipper
        return 0 if shipper is None else shipper.turned_away + shipper.failed

    async def health(self) -> Mapping[str, Json]:
        """How exporting goes: what is out of order (``""`` when nothing is), and how many spans went which way."""
        shipper = self._shipper
        if shipper is None:
            return {"up": False}
        return {
            "up": self._live is not None,
            "traces": shipper.trouble.get("traces", ""),
            "metrics": shipper.trouble.get("metrics", ""),
            "exported": shipper.exported,
            "waiting": len(shipper.queue),
            "room": self.options.buffer_spans,
            "dropped": self.dropped,
        }
