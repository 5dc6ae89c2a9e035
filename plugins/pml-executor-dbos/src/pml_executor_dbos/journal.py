"""Keeps what the tasks of one run came to, so that none is run twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pml_hookspecs import CodeRun, Failure, Outcome, Status, Task, ToolCall, Workflow

from .connection import DatabaseError

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, Services

    from .ledger import Ledger
    from .rows import TaskRow

FIRST_WAIT_S, MOST_WAIT_S = 0.2, 5.0
STOPPED = Failure("task.cancelled", "Stopped before it ended.")


def is_repeatable(task: Task, catalog: Catalog) -> bool:
    """Whether running ``task`` once more does no harm.

    That is said by an idempotency key, by a policy to try again, by the tool's annotations, or by what it is: the
    tasks of a workflow are kept one by one, and code that can reach neither tools nor files has no effects.
    """
    if isinstance(task, Workflow) or task.step.idempotency_key or task.step.retry.attempts > 1:
        return True
    if isinstance(task, CodeRun):
        return task.tools == () and task.folder is None
    entry = catalog.resolve(task.tool) if isinstance(task, ToolCall) else None
    hints = None if entry is None else entry.definition.get("annotations")
    return isinstance(hints, Mapping) and (hints.get("idempotentHint") is True or hints.get("readOnlyHint") is True)


class RunJournal:
    """Implements :class:`pml_hookspecs.Journal` for one pass over one run.

    A path is kept once per turn: what a plan tries again under the same path gets its own row each time. Turns of one
    path come one after the other, so they are the same on every pass, in whatever order different paths come.
    """

    def __init__(
        self,
        run: str,
        claim: str,
        ledger: Ledger,
        services: Services,
        rows: Iterable[TaskRow],
        lost: Callable[[], object],
        *,
        ending: Callable[[], bool] = bool,
    ) -> None:
        """A journal for the holder of ``claim``.

        Args:
            run: Which run.
            claim: Under which tasks may be begun.
            ledger: Where outcomes are kept.
            services: The catalog tells which tools may be repeated.
            rows: Of the run so far; none is in doubt.
            lost: Called when somebody else has the run; it must cancel this pass.
            ending: Whether the gateway is about to end. What goes wrong then may do so only for that.
        """
        self._run, self._claim, self._ledger, self._services, self._lost = run, claim, ledger, services, lost
        self._ended = {(row.path, row.turn): row.outcome for row in rows if row.state == "ended"}
        self._turns: Counter[str] = Counter()
        self._ending = ending
        self._waiting: list[str] = []
        self._under_way = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.held = False
        """True: no task begins any more, and what goes wrong is taken for the gateway's own end."""

    async def keep(self, path: str, task: Task, perform: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """The outcome kept for this turn of ``path``; if there is none, that of ``perform``, kept first."""
        turn = self._turns[path]
        self._turns[path] += 1
        known = self._ended.get((path, turn))
        if known is not None:
            return known
        if self.held:
            await _for_ever()
        repeatable = is_repeatable(task, self._services.catalog)
        claim = self._claim
        begun = await self._sure(
            lambda: self._ledger.started(self._run, path, turn, claim, task, repeatable=repeatable)
        )
        if not begun:
            self._lost()
            await _for_ever()
        return await self._performed(path, turn, task, perform)

    async def _performed(self, path: str, turn: int, task: Task, perform: Callable[[], Awaitable[Outcome]]) -> Outcome:
        begun_at = datetime.now(UTC)
        try:
            outcome = await self._counted(task, perform)
        except asyncio.CancelledError:
            if not self.held:  # a limit of the plan's own: that is how the task ended
                stopped = _stopped(task, begun_at)
                await _to_its_end(self._ledger.ended(self._run, path, turn, self._claim, stopped))
            raise
        if (self.held or self._ending()) and not outcome.status.good:
            await _for_ever()
        await self._kept(path, turn, outcome)
        return outcome

    async def _counted(self, task: Task, perform: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Perform, as something to wait for at the gateway's end; a workflow is what its tasks are."""
        if isinstance(task, Workflow):
            return await perform()
        self._under_way += 1
        self._quiet.clear()
        try:
            return await perform()
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._quiet.set()

    async def _kept(self, path: str, turn: int, outcome: Outcome) -> None:
        # A workflow that waits for something inside it has not ended, whatever its outcome is.
        waits = outcome.status is Status.INPUT_REQUIRED or any(p.startswith(f"{path}/") for p in self._waiting)
        if waits:
            self._waiting.append(path)
            kept = await self._sure(lambda: self._ledger.put_off(self._run, path, turn, self._claim))
        else:
            kept = await self._sure(lambda: self._ledger.ended(self._run, path, turn, self._claim, outcome))
        if not kept:
            self._lost()
            await _for_ever()

    async def _sure(self, write: Callable[[], Awaitable[bool]]) -> bool:
        """Write, however long the database is away: a plan must not fail, or run unrecorded, for that."""
        wait_s = FIRST_WAIT_S
        while True:
            try:
                return await write()
            except DatabaseError as exc:
                self._services.log.warning("a durable run waits for its database", run=self._run, problem=str(exc))
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, MOST_WAIT_S)

    async def drained(self) -> None:
        """Wait until no task is under way."""
        await self._quiet.wait()


def _stopped(task: Task, started_at: datetime) -> Outcome:
    duration_ms = round((datetime.now(UTC) - started_at).total_seconds() * 1000)
    return Outcome(
        task_id=task.id, status=Status.CANCELLED, started_at=started_at, duration_ms=duration_ms, failure=STOPPED
    )


async def _to_its_end(work: Awaitable[object]) -> None:
    """Await ``work``, which is short, whatever is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
    task.result()


async def _for_ever() -> None:
    """Wait to be cancelled."""
    await asyncio.get_running_loop().create_future()
