"""Keeps what the tasks of one run came to, so that none is run twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NoReturn

from pml_hookspecs import (
    CapabilityRun,
    CodeRun,
    Failure,
    Outcome,
    PluginTask,
    ServerRequest,
    Status,
    Task,
    Workflow,
    replace,
)

from .calls import CallMatcher, around
from .connection import DatabaseError

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, Services

    from .ledger import Ledger
    from .rows import TaskRow

FIRST_WAIT_S, MOST_WAIT_S = 0.2, 5.0
DIVERGED = (
    "This code was gone on with, and called something else than when it ran before, so that what it did then does not "
    "fit any more; the call was not made. Look at what it did (pml runs show). Code of durable plans has to make the "
    "same calls each time: keep clocks, chance and random ids out of them, or put the calls in tasks of their own."
)
STOPPED = Failure("task.cancelled", "Stopped before it ended.")


def is_repeatable(task: Task, catalog: Catalog) -> bool:
    """Whether running ``task`` once more does no harm.

    That is said by an idempotency key, by a policy to try again, by the tool's annotations, or by what it is: the
    tasks of a workflow are kept one by one, and so is what code calls, which has no other effects without files.
    """
    if isinstance(task, (Workflow, CapabilityRun)) or task.step.idempotency_key or task.step.retry.attempts > 1:
        return True
    if isinstance(task, CodeRun):
        return task.folder is None
    if isinstance(task, PluginTask):
        return False
    if isinstance(task, ServerRequest):
        return task.only_reads
    entry = catalog.resolve(task.tool)
    hints = None if entry is None else entry.definition.get("annotations")
    return isinstance(hints, Mapping) and (hints.get("idempotentHint") is True or hints.get("readOnlyHint") is True)


class RunJournal:
    """Its :meth:`keep` is a :data:`pml_hookspecs.Journal` for one pass over one run.

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
        rows = list(rows)
        self._ended = {(row.path, row.turn): row.outcome for row in rows if row.state == "ended"}
        self._called = CallMatcher(rows)
        self._diverged: set[str | None] = set()
        self._turns: Counter[str] = Counter()
        self._ending = ending
        self._waiting: list[str] = []
        self._under_way: Counter[str] = Counter()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.held = False
        """True: no task begins any more, and what goes wrong is taken for the gateway's own end."""

    async def keep(self, path: str, task: Task, perform: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """The outcome kept for this turn of ``path``; if there is none, that of ``perform``, kept first."""
        kept_at, digest = self._called.find(path, task)
        if kept_at is None:
            self._diverged.add(self._called.code_of(path))
            return _diverged(task)
        path = kept_at
        turn = self._turns[path]
        self._turns[path] += 1
        known = self._ended.get((path, turn))
        if known is not None:
            return known if known.task_id == task.id else replace(known, task_id=task.id)
        if self.held:
            await self._stuck(path)
        repeatable = is_repeatable(task, self._services.catalog)
        claim = self._claim
        begun = await self._sure(
            lambda: self._ledger.started(self._run, path, turn, claim, task, repeatable=repeatable, digest=digest)
        )
        if not begun:
            self._lost()
            await self._stuck(path)
        return await self._performed(path, turn, task, perform)

    async def _stuck(self, path: str) -> NoReturn:
        """Wait to be cancelled. Code that made the call waits with it, and is not waited for."""
        for above in around(path):
            self._over(above)
        await _for_ever()

    async def _performed(self, path: str, turn: int, task: Task, perform: Callable[[], Awaitable[Outcome]]) -> Outcome:
        begun_at = datetime.now(UTC)
        try:
            outcome = await self._counted(path, task, perform)
        except asyncio.CancelledError:
            if not self.held:  # a limit of the plan's own: that is how the task ended
                await _to_its_end(self._stopped(path, turn, task, begun_at))
            raise
        if (self.held or self._ending()) and not outcome.status.good:
            await _for_ever()
        if path in self._diverged:  # whatever the code made of that
            outcome = _diverged(task)
        await self._kept(path, turn, task, outcome)
        return outcome

    async def _stopped(self, path: str, turn: int, task: Task, begun_at: datetime) -> None:
        # Code that waits for somebody with one call gives up those beside it, and makes them again.
        if self._called.code_of(path) is not None and is_repeatable(task, self._services.catalog):
            await self._ledger.put_off(self._run, path, turn, self._claim)
        else:
            await self._ledger.ended(self._run, path, turn, self._claim, _stopped(task, begun_at))

    async def _counted(self, path: str, task: Task, perform: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Perform, as something to wait for at the gateway's end; a workflow is what its tasks are."""
        if isinstance(task, Workflow):
            return await perform()
        self._under_way[path] += 1
        self._quiet.clear()
        try:
            return await perform()
        finally:
            self._over(path)

    def _over(self, path: str) -> None:
        if self._under_way.pop(path, 0) and not self._under_way:
            self._quiet.set()

    async def _kept(self, path: str, turn: int, task: Task, outcome: Outcome) -> None:
        # What waits for something inside it has not ended; code may have gone on without that.
        within = outcome.status is not Status.OK or isinstance(task, Workflow)
        waits = outcome.status is Status.INPUT_REQUIRED or (
            within and any(p.startswith(f"{path}/") for p in self._waiting)
        )
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


def _diverged(task: Task) -> Outcome:
    failure = Failure("durable.diverged", DIVERGED)
    return Outcome(task_id=task.id, status=Status.ERROR, started_at=datetime.now(UTC), duration_ms=0, failure=failure)


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


async def _for_ever() -> NoReturn:
    """Wait to be cancelled."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError
