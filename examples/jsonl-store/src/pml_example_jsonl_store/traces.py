"""Spans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Ended, Span, Status

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionId, Scope

    from .executions import JsonlExecutions
    from .journal import Journal


class JsonlTraces:
    """Implements :class:`pml_hookspecs.Traces`."""

    executions: JsonlExecutions

    def __init__(self, journal: Journal) -> None:
        self._journal, self._of = journal, dict[str | None, dict[str, Ended]]()
        journal.live.part("span", self._apply)

    def _apply(self, key: str, value: dict[str, Any] | None) -> None:
        if value is not None:
            ended = Ended(**{**value, "span": Span(**value["span"]), "status": Status(value["status"])})
            self._of.setdefault(ended.span.execution, {})[key] = ended

    async def append(self, spans: Sequence[Ended]) -> None:
        """Add those that are not there yet."""
        for ended in spans:
            key = f"{ended.span.trace_id} {ended.span.span_id}"
            if ("span", key) not in self._journal.live:
                self._journal.write("span", key, asdict(ended), soon=True)
        self._journal.flush()

    async def of(self, execution: ExecutionId, scope: Scope) -> Sequence[Ended]:
        """Spans of one execution in start order."""
        if await self.executions.get(execution, scope) is None:
            return []
        return sorted(self._of.get(execution, {}).values(), key=lambda ended: ended.span.start_ns)

    def forget(self, execution: str) -> int:
        """Drop its spans; how many bytes that frees."""
        return sum(self._journal.live.forget("span", key) for key in self._of.pop(execution, {}))
