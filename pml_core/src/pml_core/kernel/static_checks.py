"""What executors and wrappers can tell of tasks before they run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Failure, ToolCall, Workflow, replace
from pml_kit.offers import Asker, Checker, Judge, Verdict

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, Executor, Run, Session, Task

    from .chain import NamedWrapper
    from .dispatch import Dispatcher
    from .executors import Executors

GRACE_S = 1.0
"""How much longer than it may an executor can take until it is not waited for any more [s]."""
LATE = "It took too long."
FAULT = "The executor failed to look at it; see the gateway's log."
CANNOT_TELL = "the plugin {!r} cannot tell whether somebody has to look; see the gateway's log"


class LiveChecks:
    """Asks those who know. Nothing is run. Implements :class:`pml_kit.offers.StaticChecks`."""

    def __init__(self, log: Any) -> None:
        """Nothing is known before :meth:`begin`, and asking raises RuntimeError."""
        self._log = log
        self._runs: Callable[[], tuple[Dispatcher, Executors]] = _not_started
        self._judges: list[tuple[str, Judge]] = []
        self._askers: list[tuple[str, Asker]] = []

    def begin(self, dispatcher: Dispatcher, executors: Executors, wrappers: Sequence[NamedWrapper]) -> None:
        """Ask these from now on."""
        self._runs = lambda: (dispatcher, executors)
        found = [(one.plugin, one.wrapper) for one in wrappers]
        self._judges = [(plugin, wrapper) for plugin, wrapper in found if isinstance(wrapper, Judge)]
        self._askers = [(plugin, wrapper) for plugin, wrapper in found if isinstance(wrapper, Asker)]

    async def check(self, task: Task, session: Session, *, within_s: float) -> Verdict:
        """What the executor of ``task`` can tell of it."""
        dispatcher, executors = self._runs()
        meant, problem, _ = dispatcher.resolved(task, session)
        if problem is not None:
            return Verdict(problems=(problem,))
        if isinstance(meant, Workflow) and meant.mistakes:
            return Verdict(problems=tuple(Failure("arguments.invalid", mistake) for mistake in meant.mistakes))
        if isinstance(meant, ToolCall):
            return Verdict()
        found = executors.of(meant)
        if isinstance(found, Failure):
            verdict = Verdict(problems=(found,))
        else:
            verdict = await self._asked(*found, meant, session, within_s)
        stands = isinstance(task, ToolCall) and verdict.becomes is None
        return replace(verdict, becomes=meant) if stands else verdict

    async def _asked(self, plugin: str, executor: Executor, task: Task, session: Session, within_s: float) -> Verdict:
        if not isinstance(executor, Checker):
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

    def task_types(self) -> Sequence[str]:
        """Types of plugins' tasks that somebody runs."""
        _, executors = self._runs()
        return executors.types()

    def judges(self, entry: CatalogEntry) -> bool:
        """Whether calls of the tool are refused here when their arguments do not fit."""
        self._runs()
        for plugin, judge in self._judges:
            try:
                if judge.judges(entry):
                    return True
            except Exception:
                self._log.exception("a wrapper failed to tell whether it judges arguments", plugin=plugin)
        return False

    async def would_ask(self, task: Task, above: Run) -> Sequence[str]:
        """Why humans would have to look, outermost wrapper first; nothing is told of tools that are not known."""
        dispatcher, _ = self._runs()
        meant, problem, _ = dispatcher.resolved(task, above.session)
        reasons: list[str] = []
        # A hidden tool and one that nobody has: whoever may have neither is told the same of both.
        if isinstance(meant, ToolCall) and not dispatcher.is_listed(meant, above.session):
            return reasons
        for plugin, asker in self._askers if problem is None else ():
            try:
                reasons.append(await asker.would_ask(meant, above))
            except Exception:
                self._log.exception("a wrapper failed to tell whether it would ask", plugin=plugin)
                reasons.append(CANNOT_TELL.format(plugin))
        return [reason for reason in reasons if reason]


def _not_started() -> tuple[Dispatcher, Executors]:
    raise RuntimeError("what can be told of tasks is known once the gateway has started")
