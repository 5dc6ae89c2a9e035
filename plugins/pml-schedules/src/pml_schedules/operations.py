"""What is done with schedules, for the command line and for tools."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments, replace
from pml_kit.offers import report_change

from .ledger import QUEUED, Claim, Ledger, State, execution_of
from .plan import Plan, plan_from, plan_of
from .run_task import likely_problem
from .settings import SYSTEM, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pml_hookspecs import Run, Services, Session

OPERATE = "operate"
"""Scope of keys that change what operators change."""
MOST_UPCOMING = 5
"""Times ahead that are told: enough to see the pattern."""


def settings_of(services: Services) -> Settings:
    """The plugin's settings."""
    settings: Settings = services.settings or Settings()
    return settings


def ledger_of(services: Services) -> Ledger:
    """What the store keeps."""
    return Ledger(services.store.documents, timedelta(days=settings_of(services).keep_days))


async def all_plans(services: Services) -> tuple[dict[str, Plan], dict[str, str]]:
    """All schedules, and what is wrong with those that do not fit."""
    settings, plans, unfit = settings_of(services), {}, {}
    for document in await ledger_of(services).plans():
        try:
            plans[document.key] = plan_from(document, settings)
        except (ValueError, KeyError) as exc:
            unfit[document.key] = str(exc)
    for name, schedule in settings.schedules.items():
        try:
            plans[name] = plan_of(name, schedule, settings, declared=True)
        except ValueError as exc:
            unfit[name] = str(exc)
    return plans, unfit


async def plan_called(services: Services, name: str) -> Plan:
    """One schedule.

    Raises:
        InvalidArguments: There is none, or it does not fit.
    """
    plans, unfit = await all_plans(services)
    if name in plans:
        return plans[name]
    if name in unfit:
        raise InvalidArguments(f"Schedule {name!r} does not fit: {unfit[name]}")
    from difflib import get_close_matches

    near = get_close_matches(name, plans, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "pml schedules list shows all."
    raise InvalidArguments(f"There is no schedule {name!r}; {hint}")


async def all_rows(services: Services) -> tuple[list[tuple[Plan, State, Claim | None]], dict[str, str]]:
    """All schedules by name, each with how far it has come and its last run, and what is wrong with others."""
    plans, unfit = await all_plans(services)
    ledger = ledger_of(services)
    states = await ledger.states()
    rows = []
    for name in sorted(plans):
        state = states.get(name, State())
        rows.append((plans[name], state, await ledger.claim_at(state.last) if state.last else None))
    return rows, dict(sorted(unfit.items()))


async def pause(services: Services, name: str, session: Session | None = None) -> Plan:
    """Have no further run begun, as ``session`` asks, or whoever runs this process.

    Raises:
        InvalidArguments: There is none, or it does not fit.
    """
    plan = await plan_called(services, name)
    await report_change(services, "schedules", "schedule.paused", {"schedule": plan.name}, session)
    await ledger_of(services).change(plan.name, lambda state: replace(state, paused=True))
    return plan


async def resume(services: Services, name: str, session: Session | None = None) -> tuple[Plan, State]:
    """Have it go on from now, as ``session`` asks, or whoever runs this process.

    Raises:
        InvalidArguments: There is none, or it does not fit.
    """
    plan = await plan_called(services, name)
    await report_change(services, "schedules", "schedule.resumed", {"schedule": plan.name}, session)
    return plan, await go_on(ledger_of(services), plan)


async def go_on(ledger: Ledger, plan: Plan, *, anew: bool = False) -> State:
    """Nothing before now is due. ``anew``: nor has it run before, and it is paused if it says so itself."""
    now = datetime.now(UTC)

    def change(state: State) -> State:
        if anew:
            return replace(state, handled={plan.digest: now}, runs=0, missed=0, paused=None)
        return replace(state, handled={**state.handled, plan.digest: now}, paused=False)

    return await ledger.change(plan.name, change)


async def run_soon(services: Services, name: str, session: Session | None = None) -> tuple[Plan, Claim]:
    """Put a run in line, as ``session`` asks, or whoever runs this process; a gateway that is up begins it.

    Raises:
        InvalidArguments: There is none, it does not fit, or it was told to run at this very moment already.
    """
    plan, now = await plan_called(services, name), datetime.now(UTC)
    due = now.replace(microsecond=now.microsecond // 1000 * 1000)
    execution = execution_of(plan.name, due, now)
    claim = Claim(schedule=plan.name, due=due, execution=execution, state=QUEUED, by_hand=True)
    made = await ledger_of(services).claim(claim)
    if made is None:
        raise InvalidArguments(f"{plan.name!r} was told to run at this very moment already")
    about = {"schedule": plan.name, "run": execution}
    await report_change(services, "schedules", "schedule.run_asked", about, session)
    return plan, made


def summary_of(plan: Plan, state: State, last: Claim | None) -> dict[str, Any]:
    """A summary of one schedule, as JSON."""
    paused = plan.schedule.paused if state.paused is None else state.paused
    due = plan.next(datetime.now(UTC), state.runs)
    status = "paused" if paused else "over" if due is None else "active"
    return {
        "name": plan.name,
        "what": plan.what,
        "when": plan.when,
        "state": status,
        "next": due.isoformat(timespec="seconds") if due is not None and not paused else None,
        "last": None if last is None else _last(last),
    }


def _last(claim: Claim) -> dict[str, Any]:
    about = {"due": claim.due.isoformat(timespec="seconds"), "execution_id": claim.execution}
    return {**about, "status": claim.status or claim.state, "reason": claim.reason or None}


def upcoming_of(plan: Plan, state: State) -> list[str]:
    """Its next times, soonest first; empty while it is paused, and when it is over."""
    upcoming: list[str] = []
    if not summary_of(plan, state, None)["next"]:
        return upcoming
    for due in plan.times.upcoming(datetime.now(UTC)):
        upcoming.append(due.isoformat(timespec="seconds"))
        if len(upcoming) == MOST_UPCOMING:
            break
    return upcoming


async def tell(run: Run, services: Services) -> Mapping[str, Any]:
    """``{"schedules": […], "unfit": […]}``: with the scope ``system`` all, else those that run for the caller."""
    rows, unfit = await all_rows(services)
    everything = SYSTEM in run.session.scopes
    told = [
        {
            **summary_of(plan, state, last),
            "upcoming": upcoming_of(plan, state),
            "runs": state.runs,
            "missed": state.missed,
            "declared": plan.declared,
            "principal": plan.principal,
            "problem": likely_problem(plan.schedule, services.catalog) or None,
        }
        for plan, state, last in rows
        if everything or plan.principal == run.session.principal
    ]
    broken = [{"name": name, "problem": problem} for name, problem in unfit.items()] if everything else []
    answer: Any = services.redact({"schedules": told, "unfit": broken})
    return dict(answer)


async def steer(arguments: Mapping[str, Any], run: Run, services: Services) -> Mapping[str, Any]:
    """``{"name", "state"}``, and of a run its ``execution_id``.

    Raises:
        InvalidArguments: The caller may not, the arguments do not fit, or there is no such schedule for it.
    """
    if OPERATE not in run.session.scopes:
        raise InvalidArguments(
            "steer_schedule: this key lacks the scope 'operate'; on the terminal it is pml schedules"
        )
    name, action = arguments.get("name"), arguments.get("action")
    if not isinstance(name, str) or action not in ("pause", "resume", "run_now"):
        raise InvalidArguments("steer_schedule: give name (text) and action (pause, resume or run_now)")
    plan = await plan_called(services, name)
    if SYSTEM not in run.session.scopes and plan.principal != run.session.principal:
        raise InvalidArguments(f"steer_schedule: {name!r} does not run for you")
    if action == "pause":
        return {"name": (await pause(services, name, run.session)).name, "state": "paused"}
    if action == "resume":
        return {"name": (await resume(services, name, run.session))[0].name, "state": "resumed"}
    plan, claim = await run_soon(services, name, run.session)
    return {"name": plan.name, "state": claim.state, "execution_id": claim.execution}
