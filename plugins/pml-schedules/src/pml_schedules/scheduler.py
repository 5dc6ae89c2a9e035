"""Begins what is due. Every gateway has one; what they must agree on is in the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pml_hookspecs import replace
from pml_kit.shared.lease import Leases

from .clock import Clock, SystemClock
from .ledger import CLAIMED, CLAIMS, QUEUED, Claim, Ledger, State, execution_of
from .plan import Plan, plan_from, plan_of
from .run_task import likely_problem
from .runs import Runs
from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services

MOST_COUNTED = 1000
"""Missed times that are counted at once; there may be more."""
MOST_ATTEMPTS = 3
SERVERS_KNOWN_S = 10.0
"""After which all tools should be known [s]."""
LEAST_SLEEP_S = 0.001
LOST = timedelta(days=1)
"""A run that waits for so long to be begun, of a schedule that is not known here, is nobody's any more. Until then it
may be another gateway's, which declares that schedule and is down."""


class Scheduler:
    """Starts every run that is due, and waits for the next one."""

    def __init__(self, services: Services, settings: Settings, clock: Clock | None = None) -> None:
        self._services, self._settings, self._clock = services, settings, clock or SystemClock()
        self.ledger = Ledger(services.store.documents, timedelta(days=settings.keep_days))
        self._runs = Runs(services, self.ledger, self._clock)
        self._declared = self._read_declared()
        self._unfit: dict[str, int] = {}
        """Versions of kept schedules that do not fit."""
        self._due_at: dict[tuple[str, str], datetime | None] = {}
        """When a schedule, by name and digest, is due next."""
        self._leases = Leases(self._clock.elapsed_s)
        self._born_s = self._clock.elapsed_s()
        self._doubted: set[tuple[str, int]] = set()
        self._stuck: dict[str, str] = {}
        """Why a schedule could not be looked after the last time, by name."""

    def _read_declared(self) -> dict[str, Plan]:
        plans = {}
        for name, schedule in self._settings.schedules.items():
            try:
                plans[name] = plan_of(name, schedule, self._settings, declared=True)
            except ValueError as exc:
                self._services.log.warning("a declared schedule is left out", schedule=name, problem=str(exc))
        return plans

    async def run(self) -> None:
        """Start what is due until cancelled."""
        problem = ""
        while True:
            pause_s = self._settings.look_s
            try:
                pause_s = await self.look()
                problem = ""
            except Exception as exc:
                # The store may be away; what is due meanwhile is still due when it is back.
                if problem != (problem := str(exc) or repr(exc)):
                    self._services.log.warning("schedules cannot be looked after", problem=problem)
            await self._clock.sleep(max(pause_s, LEAST_SLEEP_S))

    async def look(self) -> float:
        """Begin all that is due; when to look again [s]."""
        plans = await self._plans()
        states = await self.ledger.states()
        for name, state in states.items():
            if state.going:
                timeout_s = plans[name].schedule.timeout_s if name in plans else 0.0
                states[name] = await self._runs.settle(name, state, timeout_s)
        now = self._clock.now()
        for plan in plans.values():
            await self._advance_alone(plan, states.get(plan.name, State()), now)
        await self._take_up(plans, states)
        self._doubt(plans)
        return self._rest_s(plans)

    async def _plans(self) -> Mapping[str, Plan]:
        """What is declared wins over what is kept under the same name."""
        plans = {}
        for document in await self.ledger.plans():
            try:
                plans[document.key] = plan_from(document, self._settings)
            except (ValueError, KeyError) as exc:
                if self._unfit.get(document.key) != document.version:
                    self._unfit[document.key] = document.version
                    self._services.log.warning("a schedule is left out", schedule=document.key, problem=str(exc))
        return plans | self._declared

    # What is due

    async def _advance_alone(self, plan: Plan, state: State, now: datetime) -> None:
        """What is wrong with one schedule holds no other one up; the same problem is said once."""
        problem = ""
        try:
            await self._advance(plan, state, now)
        except Exception as exc:
            problem = str(exc) or repr(exc)
            if self._stuck.get(plan.name) != problem:
                self._services.log.warning("a schedule cannot be looked after", schedule=plan.name, problem=problem)
        self._stuck[plan.name] = problem

    async def _advance(self, plan: Plan, state: State, now: datetime) -> None:
        handled = state.handled.get(plan.digest)
        if handled is None or handled > now + self._late:
            await self._begin_anew(plan, handled, now)
            return
        which = plan.name, plan.digest
        if which not in self._due_at:
            self._due_at[which] = plan.times.next(handled)
        due_at = self._due_at[which]
        if due_at is None or due_at > now or plan.is_spent(state.runs):
            return
        found = plan.times.latest(handled, now, MOST_COUNTED)
        chosen = [] if _is_paused(plan, state) else self._chosen(plan, found, now)
        for due in chosen:
            await self._fire(plan, due)
        if found:
            missed = 0 if _is_paused(plan, state) else len(found) - len(chosen)
            await self._handle(plan, handled, found[-1], missed)
        self._due_at[which] = plan.times.next(now)

    async def _begin_anew(self, plan: Plan, handled: datetime | None, now: datetime) -> None:
        """Of a schedule that is new, and after a clock was put back: nothing before now is due."""
        if handled is not None:
            self._services.log.warning(
                "the clock was put back: a schedule goes on from now", schedule=plan.name, was=handled.isoformat()
            )
        self._due_at.pop((plan.name, plan.digest), None)

        def change(state: State) -> State:
            if state.handled.get(plan.digest) != handled:
                return state
            return replace(state, handled={**state.handled, plan.digest: now})

        await self.ledger.change(plan.name, change)

    def _chosen(self, plan: Plan, found: list[datetime], now: datetime) -> list[datetime]:
        """Which of the times to run for: usually there is one, and it is on time."""
        if plan.schedule.missed == "all":
            return found[-plan.schedule.most_missed :]
        if plan.schedule.missed == "once":
            return found[-1:]
        return [due for due in found[-1:] if due >= now - self._late]

    async def _handle(self, plan: Plan, before: datetime, last: datetime, missed: int) -> None:
        if missed:
            self._services.log.warning("times of a schedule were missed", schedule=plan.name, times=missed)

        def change(state: State) -> State:
            if state.handled.get(plan.digest) != before:  # another gateway has seen to it
                return state
            return replace(state, handled={**state.handled, plan.digest: last}, missed=state.missed + missed)

        await self.ledger.change(plan.name, change)

    async def _fire(self, plan: Plan, due: datetime) -> None:
        execution = execution_of(plan.name, due, self._clock.now())
        claim = Claim(schedule=plan.name, due=due, execution=execution, state=CLAIMED)
        if (mine := await self.ledger.claim(claim)) is not None:
            await self._runs.begin(plan, mine)

    # What is left over

    async def _take_up(self, plans: Mapping[str, Plan], states: Mapping[str, State]) -> None:
        """Begin what waits in line, and what other gateways have taken and not begun."""
        for claim in self._stale(await self.ledger.claims({"state": CLAIMED})):
            if (plan := plans.get(claim.schedule)) is None:
                if claim.due < self._clock.now() - LOST:
                    await self.ledger.drop(claim)
                continue
            mine = await self.ledger.write(replace(claim, attempts=claim.attempts + 1))
            if mine is None:
                continue
            if claim.attempts >= MOST_ATTEMPTS:
                await self._runs.fail(plan, mine, f"{claim.attempts} gateways took it, and none could begin it")
                continue
            self._services.log.warning("beginning a run that another gateway left", schedule=plan.name, due=claim.key)
            await self._runs.begin(plan, mine)
        queued = await self.ledger.claims({"state": QUEUED})
        for claim in sorted(queued, key=lambda claim: claim.due):
            plan, state = plans.get(claim.schedule), states.get(claim.schedule, State())
            if plan is None or (_is_paused(plan, state) and not claim.by_hand):
                continue
            if await self._runs.is_free(plan):
                mine = await self.ledger.write(replace(claim, state=CLAIMED))
                if mine is not None:
                    await self._runs.begin(plan, mine)

    def _stale(self, claims: Sequence[Claim]) -> list[Claim]:
        """Those that this gateway has seen unchanged for the whole lease."""
        versions = {claim.key: claim.version for claim in claims}
        living = self._leases.living(CLAIMS, versions, (), self._settings.lease_s)
        return [claim for claim in claims if claim.key not in living]

    # Else

    def _doubt(self, plans: Mapping[str, Plan]) -> None:
        """Say of each schedule, once, why its runs would fail."""
        if self._clock.elapsed_s() - self._born_s < SERVERS_KNOWN_S:
            return
        for plan in plans.values():
            if (plan.name, plan.version) in self._doubted:
                continue
            self._doubted.add((plan.name, plan.version))
            if problem := likely_problem(plan.schedule, self._services.catalog):
                self._services.log.warning("a schedule would fail", schedule=plan.name, problem=problem)

    def _rest_s(self, plans: Mapping[str, Plan]) -> float:
        known = {(plan.name, plan.digest) for plan in plans.values()}
        self._due_at = {which: due_at for which, due_at in self._due_at.items() if which in known}
        now = self._clock.now()
        coming = [(due_at - now).total_seconds() for due_at in self._due_at.values() if due_at is not None]
        # One that is over already is spent: the others set the pace.
        return min([self._settings.look_s, *(rest_s for rest_s in coming if rest_s > 0)])

    @property
    def _late(self) -> timedelta:
        return timedelta(seconds=self._settings.late_s)


def _is_paused(plan: Plan, state: State) -> bool:
    return plan.schedule.paused if state.paused is None else state.paused
