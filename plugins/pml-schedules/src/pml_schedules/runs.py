"""One run of a schedule: whether it may begin, how it begins, how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pml_hookspecs import ExecutionRecord, Failure, RunOptions, Scope, Status, replace

from .ledger import ENDED, FAILED, QUEUED, SKIPPED, STARTED, UNKNOWN, Claim, Ledger, State
from .run_task import task_of

if TYPE_CHECKING:
    from pml_hookspecs import Services

    from .clock import Clock
    from .plan import Plan

EVERYONE = Scope(principals=None)
UNDER_WAY = ("pending", "running")
MOST_QUEUED = 100
"""Runs of one schedule that wait in line."""
KINDS = {"workflow": "workflow", "agent": "tool", "tool": "tool", "capability": "capability"}
Turn = Literal["go", "busy", "spent"]


class Runs:
    """Begins claimed runs and sees how they end."""

    def __init__(self, services: Services, ledger: Ledger, clock: Clock) -> None:
        self._services, self._ledger, self._clock = services, ledger, clock
        self._stopped: set[str] = set()
        """Keys of those that took too long."""

    async def begin(self, plan: Plan, claim: Claim) -> None:
        """Begin a run that this gateway has claimed, or say why not.

        When it fails half-way, the claim stays as it is, and some gateway begins anew after a while.
        """
        turn = await self._turn(plan, claim)
        if turn == "go":
            await self._start(plan, claim)
        elif turn == "spent":
            await self._skip(claim, f"it has run {plan.schedule.max_runs} times (max_runs)")
        elif plan.schedule.overlap == "skip" and not claim.by_hand:
            await self._skip(claim, "the run before was still under way (overlap)")
        elif len(await self._ledger.claims({"schedule": plan.name, "state": QUEUED}, MOST_QUEUED)) >= MOST_QUEUED:
            await self._skip(claim, f"{MOST_QUEUED} runs waited in line already")
        else:
            await self._ledger.write(replace(claim, state=QUEUED))

    async def is_free(self, plan: Plan) -> bool:
        """Whether a run could begin."""
        return plan.schedule.overlap == "allow" or not (await self._ledger.state(plan.name)).going

    async def _turn(self, plan: Plan, claim: Claim) -> Turn:
        """Count the run, once, however many gateways try to begin it."""
        turn: Turn = "go"

        def change(state: State) -> State:
            nonlocal turn
            if claim.key in state.going:
                turn = "go"
                return state
            if plan.is_spent(state.runs) and not claim.by_hand:
                turn = "spent"
                return state
            if state.going and plan.schedule.overlap != "allow":
                turn = "busy"
                return state
            turn = "go"
            runs = state.runs + (not claim.by_hand)
            return replace(state, going=(*state.going, claim.key), runs=runs, last=claim.key)

        await self._ledger.change(plan.name, change)
        return turn

    async def _start(self, plan: Plan, claim: Claim) -> None:
        try:
            task = task_of(plan.schedule, plan.name)
        except ValueError as exc:
            await self.fail(plan, claim, str(exc))
            return
        options = RunOptions(
            id=claim.execution,
            intent=plan.schedule.intent,
            dry_run=True if plan.schedule.dry_run else None,
            trigger="manual" if claim.by_hand else "schedule",
            agent=plan.schedule.agent,
            schedule=plan.name,
        )
        await self._services.start(task, self._services.session(plan.identity, client="schedules"), options)
        await self._ledger.write(replace(claim, state=STARTED))
        self._services.log.info("a schedule began a run", schedule=plan.name, execution=claim.execution)

    async def _skip(self, claim: Claim, reason: str) -> None:
        self._services.log.warning("a run of a schedule was skipped", schedule=claim.schedule, reason=reason)
        await self._ledger.write(replace(claim, state=ENDED, status=SKIPPED, reason=reason))

    async def fail(self, plan: Plan, claim: Claim, message: str) -> None:
        """Record that a run could not begin, as a failed execution."""
        self._services.log.error("a run of a schedule failed", schedule=plan.name, problem=message)
        schedule = plan.schedule
        target = getattr(schedule, schedule.work)
        record = ExecutionRecord(
            id=claim.execution,
            kind=KINDS[schedule.work],
            target=target if isinstance(target, str) and schedule.work in ("tool", "capability") else "",
            principal=plan.principal,
            agent=schedule.agent or "schedules",
            as_agent=bool(schedule.agent),
            trigger="manual" if claim.by_hand else "schedule",
            schedule=plan.name,
            intent=schedule.intent,
            status=Status.ERROR,
            started_at=self._clock.now(),
            duration_ms=0,
            dry_run=schedule.dry_run,
            failure=Failure("schedule.failed", f"Schedule {plan.name!r} could not run: {message}"),
        )
        await self._services.store.executions.put(record)
        await self._ledger.write(replace(claim, state=ENDED, status=FAILED, reason=message))

    async def settle(self, name: str, state: State, timeout_s: float) -> State:
        """Note which of the runs under way have ended, and stop those that take too long; the state after that."""
        over = {key for key in state.going if await self._is_over(key, timeout_s)}
        if not over:
            return state
        self._stopped -= over
        return await self._ledger.change(
            name, lambda now: replace(now, going=tuple(key for key in now.going if key not in over))
        )

    async def _is_over(self, key: str, timeout_s: float) -> bool:
        claim = await self._ledger.claim_at(key)
        if claim is None or claim.state == ENDED:
            return True
        if claim.state != STARTED:
            return False
        record = await self._services.store.executions.get(claim.execution, EVERYONE)
        if record is not None and record.status in UNDER_WAY:
            await self._stop_late(claim, record, timeout_s)
            return False
        status = UNKNOWN if record is None else str(record.status)
        reason = claim.reason or ("its execution is not in the store any more" if record is None else "")
        return await self._ledger.write(replace(claim, state=ENDED, status=status, reason=reason)) is not None

    async def _stop_late(self, claim: Claim, record: ExecutionRecord, timeout_s: float) -> None:
        elapsed_s = (self._clock.now() - record.started_at).total_seconds()
        if not timeout_s or elapsed_s < timeout_s or claim.key in self._stopped:
            return
        self._stopped.add(claim.key)
        reason = f"stopped after {timeout_s:g} s (timeout_s)"
        self._services.log.warning("a run of a schedule is stopped", schedule=claim.schedule, reason=reason)
        await self._ledger.write(replace(claim, reason=reason))
        await self._services.stop(claim.execution)
