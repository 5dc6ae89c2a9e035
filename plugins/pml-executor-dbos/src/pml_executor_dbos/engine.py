"""Runs durable workflows in one gateway, and takes up those that others left."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from pml_hookspecs import ExecutionId, Failure, Outcome, RunOptions, Scope, Status, Workflow, encode, replace
from pml_kit.outcomes import ended
from pml_kit.plain import session_from, to_plain

from .journal import RunJournal
from .ledger import Ledger, RunRow
from .passes import UNREADABLE, Pass, in_doubt, lost_run, plan_of, resumed, with_ways
from .presence import Presence

if TYPE_CHECKING:
    from pml_hookspecs import Run, Services

    from .settings import Settings
    from .workflow import StepWriter

GRACE_S = 1.0
"""A client is gone: if the gateway is still there after that, it was the client that took its request back [s]."""
CLOSING_S = 2.0
RECORDING_S = 0.01
THREADS = 16
"""Rows that are written at a time."""
FIRST_WAIT_S, MOST_WAIT_S = 0.2, 5.0
FAULT = Failure("executor.fault", "The durable run failed for a fault of its own; the gateway's log has it.")
EARLIER = "durable.earlier_version"
NOT_READ = "Run {} was begun by an earlier version. What it has done cannot be read, so it is not run again."
ELSEWHERE, GIVEN_UP = "execution.elsewhere", "execution.given_up"  # as the gateway has them
LEFT = Failure("task.cancelled", "The gateway went down; the run goes on with the next one.")
TAKEN_BACK = Failure("task.cancelled", "The request was taken back.")
_inside: ContextVar[str | None] = ContextVar("pml_durable_run", default=None)  # that this is part of
_alone: ContextVar[str | None] = ContextVar("pml_durable_alone", default=None)  # gone on with here, for nobody

now = partial(datetime.now, UTC)


class Engine:
    """One per gateway. DBOS is one per process, so of several in a process one can be up."""

    def __init__(self, settings: Settings, services: Services, main: asyncio.Task[Any] | None = None) -> None:
        """``main``: the task that the gateway's life is bound to."""
        self._settings, self._services, self._log, self._main = settings, services, services.log, main
        self.ledger, self.me = Ledger(settings), uuid.uuid4().hex
        self._presence = Presence(settings, self.me)
        self._passes: dict[str, Pass] = {}
        self._starting = asyncio.Lock()
        self._background: set[asyncio.Task[Any]] = set()
        self._writing: set[asyncio.Task[Any]] = set()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="pml-durable")
        self._loop: asyncio.AbstractEventLoop | None = None
        self.up, self.closing = False, False
        self._earlier: frozenset[str] = frozenset()

    async def start(self) -> None:
        """Bring DBOS up, once; it is imported here.

        Raises:
            Exception: The database cannot be used.
        """
        async with self._starting:
            if self.up:
                return
            if self.closing:
                raise RuntimeError("the gateway is ending")
            self._loop = asyncio.get_running_loop()
            await self._in_thread(self._launch)
            self.up = True
            if self._settings.keep_days:
                await self.ledger.prune(self._settings.keep_days)

    def _launch(self) -> None:
        from . import workflow
        from .presence import earlier_runs, prepare

        if workflow.perform is not None:
            raise RuntimeError("another gateway of this process runs durable workflows")
        if self._settings.file is not None:
            prepare(self._settings.file)
        self._presence.hold()
        self._earlier = earlier_runs(self._settings)
        if self._earlier:
            self._log.warning("runs of an earlier version are not gone on with", runs=sorted(self._earlier))
        workflow.perform = self._performed
        try:
            workflow.launch(self._settings, self.me, self._log)
        except BaseException:
            workflow.perform = None
            raise

    def is_ending(self) -> bool:
        """Whether the gateway has been told to end: it stops its servers before it tells us."""
        return self.closing or (self._main is not None and self._main.cancelling() > 0)

    async def close(self) -> None:
        """Let tasks under way end, begin no others, and leave what is not done to the next gateway."""
        self.closing = True
        passes = list(self._passes.values())
        for each in passes:
            each.hold()
        draining = [asyncio.ensure_future(p.journal.drained()) for p in passes if p.journal is not None]
        if draining:
            await asyncio.wait(draining, timeout=self._settings.drain_s)
        if self._writing:  # while their runs are under way, for DBOS lets nobody else write
            await asyncio.wait(set(self._writing), timeout=CLOSING_S)
        for each in passes:
            each.stop()
        for task in (*draining, *self._background):
            task.cancel()
        under_way = [p.work for p in passes if p.work is not None] + [*self._background, *draining]
        if under_way:
            await asyncio.wait(under_way, timeout=CLOSING_S)
        await self.ledger.close()
        if self.up:
            from . import workflow

            workflow.perform = None
            self.up = False
            await asyncio.wait((asyncio.ensure_future(self._in_thread(workflow.shut_down)),), timeout=CLOSING_S)
        self._presence.release()
        self._threads.shutdown(wait=False)

    async def _in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a blocking function, outside of any run's context, which DBOS would write into."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *args)

    def _soon(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # A run that somebody waits for

    async def run(self, task: Workflow, run: Run) -> Outcome:
        """Run ``task`` as the durable run ``run.id``, or go on with the one of that id."""
        if run.dry_run or (run.parent is not None and _inside.get() is not None):
            # Nothing of a rehearsal is worth keeping; inside another durable run, that one keeps everything.
            return await run.dispatch(replace(task, durable=False))
        before = self._passes.get(run.id)
        if before is not None and before.run is None and _alone.get() == run.id:
            return await self._go(before, run)
        elsewhere = ended(
            task, now(), Status.ERROR, failure=Failure(ELSEWHERE, f"Run {run.id} is gone on with by its executor.")
        )
        if before is not None:
            # Somebody else of this gateway found it as well: who goes on with it records it.
            await asyncio.wait((before.done,))
            return elsewhere
        await self.start()
        row = await self.ledger.run(run.id)
        if row is not None and row.state == "ended" and row.outcome is not None:
            return replace(row.outcome, task_id=task.id)
        if run.id in self._earlier:
            elsewhere = ended(task, now(), Status.ERROR, failure=Failure(EARLIER, NOT_READ.format(run.id)))
        known = row is not None and row.state not in ("paused", "cancelled")
        if known or run.id in self._passes or run.id in self._earlier:
            return elsewhere
        mine = self._passes[run.id] = Pass(task, asyncio.get_running_loop().create_future(), run, copy_context())
        try:
            await self._begin(run, task, row)
            mine.ours = True
            outcome = await asyncio.shield(mine.done)
            await self._recorded(run.id)
        except asyncio.CancelledError:
            self._abandoned(run.id, mine)
            raise
        else:
            return outcome
        finally:
            if mine.work is None and self._passes.get(run.id) is mine and not mine.held:
                del self._passes[run.id]

    async def _begin(self, run: Run, task: Workflow, row: RunRow | None) -> None:
        from .workflow import start

        if row is None:
            request = {"task": to_plain(task), "session": to_plain(run.session), "intent": run.intent}
            await self._in_thread(start, run.id, encode(request).decode())
        else:
            await self.ledger.ready(run.id)

    async def _recorded(self, run: str) -> None:
        """Wait until DBOS has how a run came out, a moment after us: who is told may ask for it at once."""
        while not self.closing and (row := await self.ledger.run(run)) is not None:
            if row.state != "running" or row.worker != self.me:
                return
            await asyncio.sleep(RECORDING_S)

    def has(self, run: str) -> bool:
        """Whether this gateway is at work on it, or somebody waits for it here."""
        return run in self._passes

    def _abandoned(self, run: str, mine: Pass) -> None:
        """Nobody waits any more: the client took its request back or left, or the gateway is about to end."""
        mine.hold()
        mine.run = mine.run if mine.work is not None else None
        if not self.closing:
            self._soon(self._cancel_later(run, mine))

    async def _cancel_later(self, run: str, mine: Pass) -> None:
        await asyncio.sleep(GRACE_S)
        if self.closing or mine.done.done():
            return
        self._log.info("durable run cancelled: whoever asked for it took the request back", run=run)
        await self.ledger.cancel(run)
        mine.stop(ended(mine.task, now(), Status.CANCELLED, failure=TAKEN_BACK))
        if mine.work is None and self._passes.get(run) is mine:
            del self._passes[run]

    # What DBOS calls

    def _performed(self, run: str, request: str, steps: StepWriter) -> str:
        """Run ``run`` in the gateway's loop; called in a thread of DBOS's."""
        from .workflow import WorkflowInterrupt

        loop = self._loop
        if loop is None or loop.is_closed() or self.closing:
            raise WorkflowInterrupt
        try:
            return asyncio.run_coroutine_threadsafe(self._perform(run, json.loads(request), steps), loop).result()
        except CancelledError as exc:
            raise WorkflowInterrupt from exc

    async def _perform(self, run: str, request: dict[str, Any], steps: StepWriter) -> str:
        while (mine := self._passes.get(run)) is not None and mine.work is not None:
            await asyncio.wait((mine.work,))  # a pass that was stopped, and the run resumed before it was over
        if self.closing:
            raise asyncio.CancelledError
        alone = mine is None
        if mine is None:
            mine = self._passes[run] = Pass(plan_of(request), asyncio.get_running_loop().create_future(), ours=True)
        mine.work, mine.steps = asyncio.current_task(), steps
        try:
            mine.ending = await (self._alone(run, mine, request) if alone else self._waited_for(mine))
            if mine.ending.status is Status.INPUT_REQUIRED:
                self._log.warning(
                    "a durable run waits", run=run, why=str(mine.ending.failure and mine.ending.failure.message)
                )
        except Exception:
            self._log.exception("a durable run failed", run=run)
            mine.ending = ended(mine.task, now(), Status.ERROR, failure=FAULT)
        finally:
            if self._passes.get(run) is mine:
                del self._passes[run]
            if not mine.done.done():
                mine.done.set_result(mine.ending or ended(mine.task, now(), Status.CANCELLED, failure=LEFT))
        return encode(to_plain(mine.ending)).decode()

    async def _waited_for(self, mine: Pass) -> Outcome:
        if mine.run is None:  # left before it began
            raise asyncio.CancelledError
        return await asyncio.get_running_loop().create_task(self._go(mine, mine.run), context=mine.context)

    async def _alone(self, run: str, mine: Pass, request: dict[str, Any]) -> Outcome:
        """Go on with a run that nobody waits for."""
        self._log.info("going on with a durable run", run=run, intent=request["intent"])
        _alone.set(run)  # for this task, which does nothing else
        return await self.again(run, mine.task, request)

    async def again(self, run: str, task: Workflow, request: dict[str, Any]) -> Outcome:
        """Run ``task`` through the chain, which comes back to :meth:`run`."""
        if task is UNREADABLE:
            raise ValueError(f"what was kept of run {run} is no plan of this version")
        record = await self._services.store.executions.get(ExecutionId(run), Scope(principals=None))
        if record is not None and record.failure is not None and record.failure.code == GIVEN_UP:
            return ended(task, now(), Status.ERROR, failure=record.failure)
        options = RunOptions(
            id=ExecutionId(run),
            intent=request["intent"],
            dry_run=False,
            trigger="mcp" if record is None else record.trigger,
            agent=record.agent if record is not None and record.as_agent else "",
            schedule="" if record is None else record.schedule,
        )
        return await self._services.run(task, session_from(request["session"]), options)

    async def _go(self, mine: Pass, run: Run) -> Outcome:
        """Dispatch the plan, and keep what its tasks come to."""
        rows, last = await self.ledger.history(run.id)
        if doubts := [row for row in rows if row.in_doubt]:
            return in_doubt(mine.task, run.id, doubts)
        steps = mine.steps
        if steps is None:
            raise RuntimeError(f"run {run.id} was not begun by DBOS")
        steps.skip(last)

        def lost() -> None:
            mine.hold()
            self._soon(self._displaced(run.id, mine))

        async def write(row: dict[str, Any]) -> bool:
            return await self._written(run.id, steps, row)

        mine.journal = RunJournal(write, self._services, rows, lost, ending=self.is_ending)
        mine.journal.held = mine.held
        token = _inside.set(run.id)
        try:
            task = replace(mine.task, durable=False)
            outcome = await run.dispatch(resumed(task) if rows else task, journal=mine.journal.keep)
            return with_ways(outcome, run.id, self._services.catalog)
        finally:
            _inside.reset(token)

    async def _written(self, run: str, steps: StepWriter, row: dict[str, Any]) -> bool:
        """Write, however long the database is away: a plan must not fail, or run unrecorded, for that."""
        from .workflow import LostRunError

        wait_s = FIRST_WAIT_S
        while True:
            try:
                writing = asyncio.ensure_future(self._in_thread(steps.write, row))
                self._writing.add(writing)
                writing.add_done_callback(self._writing.discard)
                await asyncio.shield(writing)
            except LostRunError:
                return False
            except Exception as exc:
                self._log.warning("a durable run waits for its database", run=run, problem=str(exc))
            else:
                return True
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, MOST_WAIT_S)

    # What goes on with nobody asking

    async def tick(self) -> None:
        """Let go of runs that are not ours any more, and put those back on the queue whose gateways are gone."""
        if self.closing:
            return
        from .workflow import recover

        await self._in_thread(self._presence.hold)
        ours = {run: mine for run, mine in self._passes.items() if mine.ours}
        for run, row in (await self.ledger.some(ours)).items():
            if row.state != "ready" and (row.state != "running" or row.worker != self.me):
                self._displace(row, ours[run])
        if gone := await self._in_thread(self._presence.gone, await self.ledger.workers()):
            self._log.warning("taking over durable runs", workers=sorted(gone))
            await self._in_thread(recover, gone)

    async def _displaced(self, run: str, mine: Pass) -> None:
        if (row := await self.ledger.run(run)) is not None:
            self._displace(row, mine)

    def _displace(self, row: RunRow, mine: Pass) -> None:
        """The run is not ours any more: stop, and tell whoever waits what became of it."""
        if mine.done.done():
            return
        if row.state == "cancelled":
            failure = Failure("durable.cancelled", f"Run {row.id} was cancelled (pml runs cancel).")
            mine.stop(ended(mine.task, now(), Status.CANCELLED, failure=failure))
        elif row.outcome is not None:
            mine.stop(replace(row.outcome, task_id=mine.task.id))  # another gateway had it
        elif mine.work is not None:
            mine.stop(lost_run(mine.task, row.id))
