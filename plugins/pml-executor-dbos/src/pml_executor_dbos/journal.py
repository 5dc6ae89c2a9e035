"""Keeps what the tasks of one run came to, so that none is run twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

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
from pml_kit.outcomes import ended

from .calls import CallMatcher, around
from .steps import TaskRow, row_of

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, Services

Row = Callable[..., dict[str, Any]]
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
        write: Callable[[dict[str, Any]], Awaitable[bool]],
        services: Services,
        rows: Iterable[TaskRow],
        lost: Callable[[], object],
        *,
        ending: Callable[[], bool] = bool,
    ) -> None:
        """Keeps through ``write``.

        Args:
            write: Keeps a row of a task, however long the database is away; False when the run is not ours any more.
            services: The catalog tells which tools may be repeated.
            rows: Of the run so far; none is in doubt.
            lost: Called when somebody else has the run; it must cancel this pass.
            ending: Whether the gateway is about to end. What goes wrong then may do so only for that.
        """
        self._write, self._services, self._lost = write, services, lost
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
        row = partial(row_of, path, turn, task=task, digest=digest)
        # Of what may be repeated nobody needs to know that it began.
        if not is_repeatable(task, self._services.catalog) and not await self._write(row("started")):
            self._lost()
            await self._stuck(path)
        return await self._performed(path, task, row, perform)

    async def _stuck(self, path: str) -> NoReturn:
        """Wait to be cancelled. Code that made the call waits with it, and is not waited for."""
        for above in around(path):
            self._over(above)
        await _for_ever()

    async def _performed(self, path: str, task: Task, row: Row, perform: Callable[[], Awaitable[Outcome]]) -> Outcome:
        begun_at = datetime.now(UTC)
        try:
            outcome = await self._counted(path, task, perform)
        except asyncio.CancelledError:
            if not self.held:  # a limit of the plan's own: that is how the task ended
                await _to_its_end(self._stopped(path, task, row, begun_at))
            raise
        if (self.held or self._ending()) and not outcome.status.good:
            await _for_ever()
        if path in self._diverged:  # whatever the code made of that
            outcome = _diverged(task)
        await self._kept(path, task, row, outcome)
        return outcome

    async def _stopped(self, path: str, task: Task, row: Row, begun_at: datetime) -> None:
        # Code that waits for somebody with one call gives up those beside it, and makes them again.
        again = self._called.code_of(path) is not None and is_repeatable(task, self._services.catalog)
        await self._write(
            row("waiting") if again else row("ended", outcome=ended(task, begun_at, Status.CANCELLED, failure=STOPPED))
        )

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

    async def _kept(self, path: str, task: Task, row: Row, outcome: Outcome) -> None:
        # What waits for something inside it has not ended; code may have gone on without that.
        within = outcome.status is not Status.OK or isinstance(task, Workflow)
        waits = outcome.status is Status.INPUT_REQUIRED or (
            within and any(p.startswith(f"{path}/") for p in self._waiting)
        )
        if waits:
            self._waiting.append(path)
        if not await self._write(row("waiting") if waits else row("ended", outcome=outcome)):
            self._lost()
            await _for_ever()

    async def drained(self) -> None:
        """Wait until no task is under way."""
        await self._quiet.wait()


def _diverged(task: Task) -> Outcome:
    return ended(task, datetime.now(UTC), Status.ERROR, failure=Failure("durable.diverged", DIVERGED))


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
