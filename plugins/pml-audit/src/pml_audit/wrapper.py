"""The wrapper that sees what is refused, and who asks for history."""

from __future__ import annotations

import asyncio
import time
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CapabilityRun, CodeRun, Phase, PluginTask, ServerRequest, Status, ToolCall, ToolId
from pml_kit.plain import kind_of

from .rows import who

if TYPE_CHECKING:
    from pml_hookspecs import CallNext, Outcome, Run, Task

    from .recorder import Recorder
    from .settings import Settings

DAY_S = 86_400
MOST_REMEMBERED = 4096
"""Tools of which it is remembered whether they tell of executions."""
ANSWERS = "pml:answer_approval"
INVALID = "arguments.invalid"


class Audit:
    """Records denials, queries of history and the first use of a key each day."""

    phase = Phase.AUDIT

    def __init__(self, recorder: Recorder, settings: Settings) -> None:
        self._recorder, self._patterns, self._hiding = recorder, settings.queries, frozenset(settings.hiding)
        self._tells: dict[str, bool] = {}
        self._day, self._seen = 0, set[tuple[str, str, str]]()
        self.answered = asyncio.Event()
        """Set when an approval may have been answered."""

    def seen(self, day: int, principal: str, endpoint: str, key: str = "") -> None:
        """Note a use of a key that has its row; days are numbered from 1970 on, UTC."""
        if day >= self._day:
            self._turn(day)
            self._seen.add((principal, endpoint, key))

    def _turn(self, day: int) -> None:
        if day != self._day:
            self._day = day
            self._seen.clear()

    async def __call__(self, task: Task, run: Run, call_next: CallNext) -> Outcome:
        """Let everything pass; look at how it ends."""
        session, day = run.session, int(time.time() // DAY_S)
        if day != self._day or (session.principal, session.endpoint, session.access_key) not in self._seen:
            self._first_use(run, day)
        if type(task) is ToolCall and self._of_history(task.tool):
            return await self._queried(task, run, call_next)
        outcome = await call_next(task, run)
        if outcome.failure is not None:
            await self._failed(task, run, outcome)
        if type(task) is ToolCall and task.tool == ANSWERS:
            self.answered.set()  # by whom and how is in the store
        return outcome

    async def _failed(self, task: Task, run: Run, outcome: Outcome) -> None:
        if is_denial(outcome):
            await self._recorder.wait(self._recorder.record("denied", **about(task, run), **_why(outcome)))
        elif type(task) is not ToolCall:
            return
        elif task.tool == ANSWERS:
            self._recorder.record("approval.failed", **about(task, run), **_why(outcome))
        elif outcome.failure is not None and outcome.failure.code == INVALID and task.tool in self._hiding:
            await self._recorder.wait(self._recorder.record("refused", **about(task, run), **_why(outcome)))

    def _first_use(self, run: Run, day: int) -> None:
        session = run.session
        self._turn(day)
        self._seen.add((session.principal, session.endpoint, session.access_key))
        self._recorder.record(
            "key.used",
            **who(session),
            scopes=sorted(session.scopes),
            day=time.strftime("%Y-%m-%d", time.gmtime(day * DAY_S)),
        )

    def _of_history(self, tool: ToolId) -> bool:
        try:
            return self._tells[tool]
        except KeyError:
            if len(self._tells) >= MOST_REMEMBERED:
                self._tells.clear()
            found = self._tells[tool] = any(fnmatchcase(tool, pattern) for pattern in self._patterns)
            return found

    async def _queried(self, task: ToolCall, run: Run, call_next: CallNext) -> Outcome:
        asked = {**about(task, run), "arguments": dict(task.arguments)}
        try:
            outcome = await call_next(task, run)
        except asyncio.CancelledError:
            self._recorder.record("query", **asked, status=Status.CANCELLED.value)
            raise
        kind = "denied" if is_denial(outcome) else "query"
        await self._recorder.wait(self._recorder.record(kind, **asked, **_why(outcome)))
        return outcome


def is_denial(outcome: Outcome) -> bool:
    """Whether a policy refused the task, or a limit ended it."""
    failure = outcome.failure
    return outcome.status is Status.DENIED or (failure is not None and failure.code.startswith(("limit.", "policy.")))


def about(task: Task, run: Run) -> dict[str, Any]:
    """The row about a task: who asked for it, and what it was to do."""
    return {
        "task": kind_of(task),
        "target": _target(task),
        **who(run.session),
        "execution": run.id,
        "parent": run.parent,
        "intent": run.intent,
        "dry_run": run.dry_run or None,
    }


def _target(task: Task) -> str:
    if isinstance(task, ToolCall):
        return task.tool
    if isinstance(task, CodeRun):
        return task.language
    if isinstance(task, ServerRequest):
        return f"{task.method} {task.name}"
    if isinstance(task, PluginTask):
        return task.type
    return task.capability_id if isinstance(task, CapabilityRun) else task.id


def _why(outcome: Outcome) -> dict[str, Any]:
    failure = outcome.failure
    why: dict[str, Any] = {"status": outcome.status.value}
    if failure is not None:
        why |= {"code": failure.code, "message": failure.message, "details": dict(failure.details) or None}
    return why
