"""Runs durable workflows in one gateway, and takes up those that others left."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from concurrent.futures import CancelledError
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any

from pml_hookspecs import ExecutionId, Failure, Outcome, RunOptions, Scope, Status, Workflow, replace
from pml_kit.plain import session_from, to_plain
from pml_kit.processes import machine, started

from .journal import RunJournal
from .ledger import Ledger
from .liveness import LivenessMonitor, Worker
from .passes import UNREADABLE, Pass, ended, in_doubt, lost_run, plan_of, resumed, with_ways
from .rows import RunRow

if TYPE_CHECKING:
    from pml_hookspecs import Run, Services

    from .settings import Settings

GRACE_S = 1.0
"""A client is gone: if the gateway is still there after that, it was the client that took its request back [s]."""
CLOSING_S = 2.0
BEGINNING_S = 10.0
"""Longest that DBOS takes to begin with a run that it was given [s]."""
FAULT = "The durable run failed for a fault of its own; the gateway's log has it."
ELSEWHERE = "execution.elsewhere"  # as the contract of executors has it
LEFT = ("task.cancelled", "The gateway went down; the run goes on with the next one.")
_inside: ContextVar[str | None] = ContextVar("pml_durable_run", default=None)  # that this is part of
_alone: ContextVar[str | None] = ContextVar("pml_durable_alone", default=None)  # gone on with here, for nobody


class Engine:
    """One per gateway. DBOS is one per process, so of several in a process one can be up."""

    def __init__(self, settings: Settings, services: Services, main: asyncio.Task[Any] | None = None) -> None:
        """``main``: the task that the gateway's life is bound to."""
        self._settings, self._services, self._log, self._main = settings, services, services.log, main
        self.ledger = Ledger(settings)
        self.me = Worker(f"{settings.worker}/{uuid.uuid4().hex[:12]}", 0, machine(), pid := os.getpid(), started(pid))
        self._watch = LivenessMonitor(settings.lease, self.me)
        self._passes: dict[str, Pass] = {}
        self._resumed: dict[str, float] = {}
        self._starting = asyncio.Lock()
        self._background: set[asyncio.Task[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.up, self.closing = False, False

    # Life

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
            await self.ledger.beat(self.me)
            await asyncio.get_running_loop().run_in_executor(None, self._launch)
            self.up = True
            if self._settings.keep_days:
                await self._prune()

    def _launch(self) -> None:
        from . import workflow

        if workflow.perform is not None:
            raise RuntimeError("another gateway of this process runs durable workflows")
        workflow.perform = self._performed
        try:
            workflow.launch(self._settings, self.me.id, self._log)
        except BaseException:
            workflow.perform = None
            raise

    def is_ending(self) -> bool:
        """Whether the gateway has been told to end: it stops its servers before it tells us."""
        return self.closing or (self._main is not None and self._main.cancelling() > 0)

    async def _prune(self) -> None:
        if runs := await self.ledger.prune(self._settings.keep_days):
            await self._in_thread("forget", runs)

    async def close(self) -> None:
        """Let tasks under way end, begin no others, and leave what is not done to the next gateway."""
        self.closing = True
        passes = list(self._passes.values())
        for each in passes:
            each.hold()
        draining = [asyncio.ensure_future(p.journal.drained()) for p in passes if p.journal is not None]
        if draining:
            await asyncio.wait(draining, timeout=self._settings.drain_s)
        for waiting in draining:
            waiting.cancel()
        for each in passes:
            each.stop()
        for task in self._background:
            task.cancel()
        under_way = [p.work for p in passes if p.work is not None] + [*self._background, *draining]
        if under_way:
            await asyncio.wait(under_way, timeout=CLOSING_S)
        if self.up:
            from . import workflow

            workflow.perform = None
            self.up = False
            await self.ledger.leave(self.me.id)
            stopping = asyncio.get_running_loop().run_in_executor(None, workflow.shut_down)
            await asyncio.wait((stopping,), timeout=CLOSING_S)
        await self.ledger.close()

    async def _in_thread(self, name: str, *args: Any) -> Any:
        """Call a blocking function of :mod:`workflow`; outside of any run's context, which DBOS would write into."""
        from . import workflow

        return await asyncio.get_running_loop().run_in_executor(None, getattr(workflow, name), *args)

    def _soon(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._was_done)

    def _was_done(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._log.warning("durable runs cannot be looked after", problem=str(problem))

    # A run that somebody waits for

    async def run(self, task: Workflow, run: Run) -> Outcome:
        """Run ``task`` as the durable run ``run.id``, or go on with the one of that id."""
        if run.dry_run or (run.parent is not None and _inside.get() is not None):
            # Nothing of a rehearsal is worth keeping; inside another durable run, that one keeps everything.
            return await run.dispatch(replace(task, durable=False))
        mine = self._passes.get(run.id)
        if mine is not None and mine.run is None:
            if _alone.get() == run.id:
                return await self._go(mine, run)
            # Somebody else of this gateway found it as well: who goes on with it records it.
            await asyncio.wait((mine.done,))
            return ended(task, Status.ERROR, Failure(ELSEWHERE, f"Run {run.id} is gone on with by its executor."))
        await self.start()
        request = {"task": to_plain(task), "session": to_plain(run.session), "intent": run.intent}
        mine = Pass(task, asyncio.get_running_loop().create_future(), run, copy_context())
        self._passes[run.id] = mine
        try:
            new = await self.ledger.begin(run.id, self.me.id, task, request)
            if not new and (known := await self._known(run.id, task)) is not None:
                del self._passes[run.id]
                return known
            mine.ours = True
            await (self._in_thread("start", run.id) if new else self._resume(run.id))
            outcome = await asyncio.shield(mine.done)
        except asyncio.CancelledError:
            self._abandoned(run.id, mine)
            raise
        except Exception:
            self._passes.pop(run.id, None)
            await self.ledger.cancel(run.id)
            raise
        self._forget(run.id, mine)
        return outcome

    def has(self, run: str) -> bool:
        """Whether this gateway is at work on it, or somebody waits for it here."""
        return run in self._passes

    def _forget(self, run: str, mine: Pass) -> None:
        """A pass that never began here leaves nothing; any other takes itself off."""
        if mine.work is None and self._passes.get(run) is mine:
            del self._passes[run]

    async def _known(self, run: str, task: Workflow) -> Outcome | None:
        """Why a run that exists is not gone on with here; None when it is."""
        # At once: were it ready in between, whoever looks for such runs could have it, this gateway too.
        if await self.ledger.take(run, self.me.id, waiting=True):
            return None
        row = await self.ledger.run(run)
        if row is not None and row.state == "ended" and row.outcome is not None:
            return replace(row.outcome, task_id=task.id)
        return ended(task, Status.ERROR, Failure(ELSEWHERE, f"Run {run} is being run by another gateway."))

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
        mine.stop(ended(mine.task, Status.CANCELLED, Failure("task.cancelled", "The request was taken back.")))
        self._forget(run, mine)

    # What DBOS calls

    def _performed(self, run: str) -> str:
        """Run ``run`` in the gateway's loop; called in a thread of DBOS's."""
        from .workflow import WorkflowInterrupt

        loop = self._loop
        if loop is None or loop.is_closed() or self.closing:
            raise WorkflowInterrupt
        try:
            return asyncio.run_coroutine_threadsafe(self._perform(run), loop).result()
        except CancelledError as exc:
            raise WorkflowInterrupt from exc

    async def _perform(self, run: str) -> str:
        while (mine := self._passes.get(run)) is not None and mine.work is not None:
            await asyncio.wait((mine.work,))  # a pass that was stopped, and the run resumed before it was over
        if self.closing:
            raise asyncio.CancelledError
        row: RunRow | None = None
        if mine is None:
            row = await self.ledger.run(run)
            if row is None or row.state not in ("running", "ready"):
                return await self._not_to_be_run(run, row)
            mine = self._passes[run] = Pass(plan_of(row), asyncio.get_running_loop().create_future(), ours=True)
        mine.work = asyncio.current_task()
        try:
            outcome = await (self._alone(run, mine, row) if row is not None else self._waited_for(mine))
            return await self._finish(run, mine, outcome)
        except asyncio.CancelledError:
            await self._stopped(run, mine)
            raise
        except Exception:
            self._log.exception("a durable run failed", run=run)
            fault = ended(mine.task, Status.ERROR, Failure("executor.fault", FAULT))
            await self.ledger.finish(run, mine.claim, self.me.id, "ended", fault)
            mine.ending = fault
            return str(Status.ERROR)
        finally:
            self._resumed.pop(run, None)
            if self._passes.get(run) is mine:
                del self._passes[run]
            if not mine.done.done():
                mine.done.set_result(mine.ending or ended(mine.task, Status.CANCELLED, Failure(*LEFT)))

    async def _not_to_be_run(self, run: str, row: RunRow | None) -> str:
        if row is not None and row.state in ("paused", "cancelled"):
            await self._in_thread("set_aside", run)
            raise asyncio.CancelledError
        return "unknown" if row is None or row.outcome is None else str(row.outcome.status)

    async def _waited_for(self, mine: Pass) -> Outcome:
        if mine.run is None:  # left before it began
            raise asyncio.CancelledError
        return await asyncio.get_running_loop().create_task(self._go(mine, mine.run), context=mine.context)

    async def _alone(self, run: str, mine: Pass, row: RunRow) -> Outcome:
        """Go on with a run that nobody waits for."""
        self._log.info("going on with a durable run", run=run, intent=row.intent)
        _alone.set(run)  # for this task, which does nothing else
        return await self.again(run, mine.task, row)

    async def again(self, run: str, task: Workflow, row: RunRow) -> Outcome:
        """Run ``task`` through the chain, which comes back to :meth:`run`."""
        if task is UNREADABLE:
            raise ValueError(f"what was kept of run {run} is no plan of this version")
        record = await self._services.store.executions.get(ExecutionId(run), Scope(principals=None))
        options = RunOptions(
            id=ExecutionId(run),
            intent=row.intent,
            dry_run=False,
            trigger="mcp" if record is None else record.trigger,
            agent=record.agent if record is not None and record.as_agent else "",
            schedule="" if record is None else record.schedule,
        )
        return await self._services.run(task, session_from(row.request["session"]), options)

    async def _go(self, mine: Pass, run: Run) -> Outcome:
        """Dispatch the plan, and keep what its tasks come to."""
        claim = uuid.uuid4().hex
        rows = await self.ledger.claim(run.id, claim, self.me.id)
        if rows is None:
            mine.stop(lost_run(mine.task, run.id))
            raise asyncio.CancelledError
        mine.claim = claim
        if doubts := [row for row in rows if row.in_doubt]:
            return in_doubt(mine.task, run.id, doubts)

        def lost() -> None:
            mine.hold()
            self._soon(self._displaced(run.id, mine))

        mine.journal = RunJournal(run.id, claim, self.ledger, self._services, rows, lost, ending=self.is_ending)
        mine.journal.held = mine.held
        token = _inside.set(run.id)
        try:
            task = replace(mine.task, durable=False)
            outcome = await run.dispatch(resumed(task) if rows else task, journal=mine.journal.keep)
            return with_ways(outcome, run.id, self._services.catalog)
        finally:
            _inside.reset(token)

    async def _finish(self, run: str, mine: Pass, outcome: Outcome) -> str:
        """Note how it came out; a run that waits is set aside."""
        paused = outcome.status is Status.INPUT_REQUIRED
        if paused:
            # First, for once it is known to be paused somebody may resume it. Set aside it can be requeued, as it could
            # not if DBOS had a result.
            await self._in_thread("set_aside", run)
        ours = await self.ledger.finish(run, mine.claim, self.me.id, "paused" if paused else "ended", outcome)
        mine.done.set_result(outcome)
        if ours and paused:
            why = "" if outcome.failure is None else outcome.failure.message
            self._log.warning("a durable run waits", run=run, why=why)
        if not ours or paused:
            raise asyncio.CancelledError
        return str(outcome.status)

    async def _stopped(self, run: str, mine: Pass) -> None:
        """The work was cancelled: by us for good, by the end of the gateway, or since another worker has the run."""
        row = await self.ledger.run(run) if mine.ending is not None and self.up and not self.closing else None
        if row is not None and row.state == "cancelled":
            await self._in_thread("set_aside", run)

    # What goes on with nobody asking

    async def tick(self) -> None:
        """Give a sign of life, let go of runs that are not ours any more, and take up those that nobody has."""
        if self.closing:
            return
        await self.ledger.beat(self.me)
        owners = await self.ledger.owners()
        await self._let_go(owners)
        for run, (state, _, _) in owners.items():
            if state == "ready" and await self.ledger.take(run, self.me.id):
                await self._resume(run)
        workers = await self.ledger.workers()
        dead = self._watch.dead(workers)
        for run, (state, worker, claim) in owners.items():
            left = worker in dead or worker not in workers
            if state == "running" and left and await self.ledger.take(run, self.me.id, from_worker=worker):
                self._log.warning("taking over a durable run", run=run, worker=worker)
                await self._resume(run)
            elif worker == self.me.id and claim is None and run not in self._passes:
                await self._resume_again(run)
        for worker in dead:
            await self._bury(worker)

    async def _let_go(self, owners: dict[str, tuple[Any, str, str | None]]) -> None:
        for run, mine in list(self._passes.items()):
            _, worker, claim = owners.get(run, ("", "", None))
            ours = worker == self.me.id and mine.claim in (None, claim)
            if not ours and not mine.done.done():
                await self._displaced(run, mine)

    async def _displaced(self, run: str, mine: Pass) -> None:
        """The run is not ours any more: stop, and tell whoever waits what became of it."""
        row = await self.ledger.run(run)
        beginning = mine.claim is None and (row is None or (row.worker == self.me.id and row.state == "running"))
        if mine.done.done() or beginning or not mine.ours:
            return
        if row is not None and row.state == "cancelled":
            failure = Failure("durable.cancelled", f"Run {run} was cancelled (pml runs cancel).")
            mine.stop(ended(mine.task, Status.CANCELLED, failure))
        elif row is not None and row.state in ("ended", "paused") and row.outcome is not None:
            mine.stop(replace(row.outcome, task_id=mine.task.id))  # we were silent, and another gateway had it
        else:
            mine.stop(lost_run(mine.task, run))

    async def _resume_again(self, run: str) -> None:
        """Nobody has begun with a run of ours. After a while DBOS is asked again: it may have set it aside since."""
        now = time.monotonic()
        if now - self._resumed.setdefault(run, now) > BEGINNING_S:
            await self._resume(run)

    async def _resume(self, run: str) -> None:
        self._resumed[run] = time.monotonic()
        if not await self._in_thread("requeue", run):  # its worker died before DBOS heard of it
            await self._in_thread("start", run)

    async def _bury(self, worker: str) -> None:
        """A dead worker's runs are in other hands: forget it. What ended just before it died DBOS is told now."""
        for run in await self._in_thread("left_by", worker):
            row = await self.ledger.run(run)
            if row is not None and row.state != "running":
                await self._in_thread("requeue" if row.state == "ended" else "set_aside", run)
        await self.ledger.leave(worker)
