"""Calls of tools that are withheld, and results that may have suspicious text: most have none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import GATEWAY_SERVER, Phase, RawObject, ServerRequest, ToolCall, encode, replace

if TYPE_CHECKING:
    from pml_hookspecs import CallNext, Outcome, Run, Services, Task

    from .definitions import DefinitionInspector
    from .results import ResultInspector
    from .settings import Settings

OWN = f"{GATEWAY_SERVER}:"


class InspectionWrapper:
    """Refuses what is withheld, and has results looked at that may have something in them.

    Inside of the audit, which is to hear of refusals, and outside of what answers in place of servers: recordings are
    results, too.
    """

    phase = Phase.AUDIT
    after = ("audit?",)

    def __init__(
        self, services: Services, settings: Settings, inspector: Callable[[Services], DefinitionInspector]
    ) -> None:
        """``inspector`` is the one that judges definitions; it is made when it is first asked for."""
        self._services, self._settings, self._inspector = services, settings, inspector
        self._quarantines, self._reads = settings.quarantines, settings.reads_results
        self._may_be_in: Callable[[bytes], bool] | None = None
        self._results: ResultInspector | None = None

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        """Hand the task on, and look at what comes of it."""
        if isinstance(task, ToolCall):
            if task.tool.startswith(OWN):
                return call_next(task, run)
            if self._quarantines and (entry := self._services.catalog.get(task.tool)) is not None:
                found = self._inspector(self._services).withheld(entry)
                if found:
                    from .results import refused

                    return refused(task, found)
        elif isinstance(task, ServerRequest) and self._quarantines:
            withheld = self._inspector(self._services).quarantine.get(task.name)
            if withheld is not None:
                from .results import refused

                return refused(task, withheld)
        return self._inspected(task, run, call_next) if self._reads else call_next(task, run)

    async def _inspected(self, task: Task, run: Run, call_next: CallNext) -> Outcome:
        outcome = await call_next(task, run)
        output: Any = outcome.output
        if output is None:
            return outcome
        raw = output.raw if isinstance(output, RawObject) else encode(output)
        if self._may_be_in is None:
            self._may_be_in = self._inspector(self._services).phrases.may_be_in
        if not self._may_be_in(raw):
            return outcome
        if self._results is None:
            from .results import ResultInspector

            self._results = ResultInspector(self._services, self._settings, self._inspector(self._services).phrases)
        if isinstance(task, (ToolCall, ServerRequest)):
            return self._results.of_call(task, outcome) if isinstance(output, Mapping) else outcome
        meta = self._results.meta_of(task, output)
        return replace(outcome, meta={**(outcome.meta or {}), **meta}) if meta else outcome
