"""Answers against their budgets: nearly all are small, and nothing is imported for those."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import GATEWAY_SERVER, RawObject, Services, Session, Task, ToolCall

from .definition import READ
from .settings import Settings

if TYPE_CHECKING:
    from .large_answers import LargeAnswers
    from .storage import StoredResults

OWN_TASKS = f"{GATEWAY_SERVER}:"
"""Begins the tools that plans, code and capabilities are asked for by; what budgets of servers call them by."""
READ_ID = f"{OWN_TASKS}{READ}"


class ResultBudget:
    """Lets answers pass that fit every budget there is, and has the others looked at."""

    def __init__(self, services: Services, settings: Settings, stored: Callable[[], StoredResults]) -> None:
        """``stored`` makes what keeps answers, once one is to be kept."""
        self._services, self._settings, self._stored = services, settings, stored
        self._passes = -1 if settings.compact else settings.least_budget
        self._large: LargeAnswers | None = None

    async def __call__(self, answer: Mapping[str, Any], task: Task, session: Session) -> Mapping[str, Any]:
        # No text has more tokens than bytes.
        if isinstance(answer, RawObject) and len(answer.raw) <= self._passes:
            return answer
        tool = task.tool if isinstance(task, ToolCall) else OWN_TASKS
        if tool == READ_ID:
            return answer
        if self._large is None:
            from .large_answers import LargeAnswers

            self._large = LargeAnswers(self._services, self._settings, self._stored())
        return await self._large.shaped(answer, tool, session)
