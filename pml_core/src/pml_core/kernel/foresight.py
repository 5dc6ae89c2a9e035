"""What executors and wrappers can tell of tasks before they run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Failure, ToolCall, Verdict, Workflow

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, Checker, Run, Session, Task

    from .chain import Wrapped
    from .dispatch import Dispatcher
    from .executors import Executors

GRACE_S = 1.0
"""How much longer than it may an executor can take until it is not waited for any more [s]."""
LATE = "It took too long."
FAULT = "The executor failed to look at it; see the gateway's log."
CANNOT_TELL = "the plugin {!r} cannot tell whether somebody has to look; see the gateway's log"


class Foresight:
    """Asks those who know. Nothing is run."""

    def __init__(self, dispatcher: Dispatcher, executors: Executors, wrappers: Sequence[Wrapped], log: Any) -> None:
        self._dispatcher, self._executors, self._wrappers, self._log = dispatcher, executors, wrappers, log

    async def check(self, task: Task, session: Session, within_s: float) -> Verdict:
        """What the executor of ``task`` can tell of it."""
        meant, problem = self._dispatcher.resolved(task, session)
        if problem is not None:
            return Verdict(problems=(problem,))
        if isinstance(meant, Workflow) and meant.mistakes:
            return Verdict(problems=tuple(Failure("arguments.invalid", mistake) for mistake in meant.mistakes))
        if isinstance(meant, ToolCall):
            return Verdict()
        found = self._executors.of(meant)
        if isinstance(found, Failure):
            verdict = Verdict(problems=(found,))
        else:
            plugin, executor = found
            checker: Any = executor
            verdict = await self._asked(plugin, checker, meant, session, within_s)
        stands = isinstance(task, ToolCall) and verdict.becomes is None
        return replace(verdict, becomes=meant) if stands else verdict

    async def _asked(self, plugin: str, executor: Checker, task: Task, session: Session, within_s: float) -> Verdict:
        if getattr(executor, "check", None) is None:
            return Verdict()
        try:
            async with asyncio.timeout(within_s + GRACE_S):
                verdict: Any = await executor.check(task, session, within_s=within_s)
        except TimeoutError:
            return Verdict(unchecked=LATE)
        except Exception:
            self._log.exception("an executor failed to check a task", plugin=plugin, task=task.id)
            return Verdict(unchecked=FAULT)
        if isinstance(verdict, Verdict):
            return verdict
        self._log.error("an executor checked a task and gave no verdict", plugin=plugin, task=task.id)
        return Verdict(unchecked=FAULT)

    def judges(self, entry: CatalogEntry) -> bool:
        """Whether calls of the tool are refused here when their arguments do not fit."""
        for wrapped in self._wrappers:
            judge: Any = wrapped.wrapper
            if getattr(judge, "judges", None) is None:
                continue
            try:
                if judge.judges(entry):
                    return True
            except Exception:
                self._log.exception("a wrapper failed to tell whether it judges arguments", plugin=wrapped.plugin)
        return False

    async def would_ask(self, task: Task, above: Run) -> Sequence[str]:
        """Why humans would have to look, outermost wrapper first; nothing is told of tools that are not known."""
        meant, problem = self._dispatcher.resolved(task, above.session)
        reasons: list[str] = []
        # A hidden tool and one that nobody has: whoever may have neither is told the same of both.
        if isinstance(meant, ToolCall) and not self._dispatcher.is_listed(meant, above.session):
            return reasons
        for wrapped in self._wrappers if problem is None else ():
            asker: Any = wrapped.wrapper
            if getattr(asker, "would_ask", None) is None:
                continue
            try:
                reasons.append(await asker.would_ask(meant, above))
            except Exception:
                self._log.exception("a wrapper failed to tell whether it would ask", plugin=wrapped.plugin)
                reasons.append(CANNOT_TELL.format(wrapped.plugin))
        return [reason for reason in reasons if reason]
