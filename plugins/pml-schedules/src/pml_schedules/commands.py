"""``pml schedules``: what the verbs do."""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments
from pml_kit.offers import report_change
from pml_kit.terminal import print_json, print_table

from . import operations
from .ledger import ENDED, Claim, Ledger, State
from .operations import go_on, ledger_of, plan_called, settings_of, summary_of, upcoming_of
from .plan import Plan, plan_of
from .plan_file import read_plan
from .run_task import likely_problem
from .settings import Schedule, to_plain

if TYPE_CHECKING:
    from pml_hookspecs import Services

UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(s|m|min|h|d|w)")
MOST = 1000
SOON_S = 0.2
"""How often a run that is waited for is looked at [s]."""


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")


# Make and remove


async def add(arguments: argparse.Namespace, services: Services) -> int:
    """Keep a new schedule."""
    settings, ledger, name = settings_of(services), ledger_of(services), arguments.name
    try:
        plan = plan_of(name, _schedule(arguments), settings, declared=False)
    except ValueError as exc:
        raise InvalidArguments(str(exc)) from exc
    if name in settings.schedules:
        raise InvalidArguments(
            f"{name!r} stands in the configuration, [plugins.schedules.schedules.{name}]; change it there"
        )
    if plan.times.next(datetime.now(UTC)) is None:
        raise InvalidArguments("It would never run: until is over, or before the first time that cron names.")
    before = await ledger.plan(name)
    if before is not None and not arguments.replace:
        raise InvalidArguments(f"There is a schedule {name!r} already; --replace puts this one in its place.")
    value = {"schedule": to_plain(plan.schedule), "added_at": datetime.now(UTC).isoformat(timespec="seconds")}
    if not await ledger.keep_plan(name, value, if_version=0 if before is None else before.version):
        raise InvalidArguments(f"Somebody else changed {name!r} at the same time; look at it and try again.")
    about = {"schedule": name, "runs": plan.what, "when": plan.when}
    await report_change(services, "schedules", "schedule.added", about)
    state = await go_on(ledger, plan, anew=True)
    problem = likely_problem(plan.schedule, services.catalog)
    if problem:
        sys.stderr.write(f"pml: warning: its runs will fail unless this changes: {problem}\n")
    if arguments.json:
        print_json(summary_of(plan, state, None))
    else:
        say(f"{name} runs {plan.what}, {plan.when}; {_next_words(plan, state)}.")
    return 0


def _schedule(arguments: argparse.Namespace) -> Schedule:
    """Raises ValueError."""
    given = {field.name: getattr(arguments, field.name) for field in fields(Schedule) if field.name != "every_s"}
    for name, read in READ.items():
        given[name] = read(given[name], f"--{name}")
    for name, least in LEAST.items():
        given[name] = _least(given[name], least, f"--{name.replace('_', '-')}")
    if arguments.every and given["start"] is None:
        given["start"] = datetime.now(UTC).replace(microsecond=0)
    return Schedule(**given, every_s=seconds(arguments.every, "--every") if arguments.every else 0.0)


def _workflow(path: str, _option: str) -> str | dict[str, Any]:
    """What the file holds now: a schedule that is kept does not depend on files."""
    if path != "-":
        return read_plan(path) if path else ""
    plan = _object(sys.stdin.read(), "--workflow -")
    if not plan:
        raise ValueError("--workflow -: there was no plan on the standard input")
    return plan


def _least(value: Any, least: float, option: str) -> Any:
    if not least <= value < float("inf"):
        raise ValueError(f"{option}: must be {least:g} or more, not {value}")
    return value


def seconds(text: str, option: str) -> float:
    """A time such as ``15m`` [s].

    Raises:
        ValueError: It is none.
    """
    if (found := DURATION.fullmatch(text.strip())) is None:
        raise ValueError(f"{option}: {text!r} is no time; write a number and s, m, h, d or w, such as 15m")
    return float(found[1]) * UNITS[found[2]]


def _moment(text: str, option: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError as exc:
        raise ValueError(f"{option}: {text!r} is no time; write it like 2026-12-24T18:00 or 2026-12-24T18:00Z") from exc


def _object(text: str, option: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        value = json.loads(text)
    except ValueError as exc:
        raise ValueError(f"{option}: is not JSON: {exc}") from exc
    if isinstance(value, dict):
        return value
    raise ValueError(f"{option}: must be a JSON object, such as {{}}")


READ: Mapping[str, Callable[[str, str], Any]] = {
    "start": _moment, "until": _moment, "workflow": _workflow, "inputs": _object, "arguments": _object,
    "scopes": lambda scopes, _option: tuple(scopes),
}  # fmt: skip
LEAST = {"max_runs": 0, "jitter_s": 0, "most_missed": 1, "timeout_s": 0}


async def remove(arguments: argparse.Namespace, services: Services) -> int:
    """Forget a schedule."""
    name = arguments.name
    if name in settings_of(services).schedules:
        message = (
            f"{name!r} stands in the configuration; remove [plugins.schedules.schedules.{name}] there, or pause it"
        )
        raise InvalidArguments(message)
    ledger = ledger_of(services)
    if await ledger.plan(name) is None:
        await plan_called(services, name)
    # First, because somebody who deletes might end the command before it is through.
    await report_change(services, "schedules", "schedule.removed", {"schedule": name})
    await ledger.remove_plan(name)
    _done(arguments, name, "removed")
    return 0


# Steer


async def pause(arguments: argparse.Namespace, services: Services) -> int:
    """Begin no further run."""
    plan = await operations.pause(services, arguments.name)
    _done(arguments, plan.name, "paused")
    return 0


async def resume(arguments: argparse.Namespace, services: Services) -> int:
    """Go on from now."""
    plan, state = await operations.resume(services, arguments.name)
    if arguments.json:
        print_json({"name": plan.name, "state": "resumed"})
    else:
        say(f"{plan.name} goes on; {_next_words(plan, state)}.")
    return 0


async def run_now(arguments: argparse.Namespace, services: Services) -> int:
    """Put a run in line."""
    plan, claim = await operations.run_soon(services, arguments.name)
    ledger, execution = ledger_of(services), claim.execution
    ended = await _ended(ledger, claim, arguments.wait_s)
    if arguments.json:
        print_json({"name": plan.name, "execution_id": execution, "status": _status(ended or claim)})
    elif ended is not None:
        say(f"{plan.name} ended: {ended.status}{f' ({ended.reason})' if ended.reason else ''}, execution {execution}.")
    elif arguments.wait_s:
        say(f"{plan.name} has not ended in {arguments.wait_s:g} s. Is a gateway up? Its execution is {execution}.")
    else:
        soon_s = settings_of(services).look_s
        say(f"{plan.name} is in line as execution {execution}: a gateway that is up begins it within {soon_s:g} s.")
    return 0 if ended is None or ended.status == "ok" or plan.schedule.dry_run else 1


async def _ended(ledger: Ledger, claim: Claim, wait_s: float) -> Claim | None:
    """The claim when its run has ended; None when it has not in this time."""
    try:
        async with asyncio.timeout(wait_s):
            while wait_s > 0:
                now = await ledger.claim_at(claim.key)
                if now is not None and now.state == ENDED:
                    return now
                await asyncio.sleep(SOON_S)
    except TimeoutError:
        pass
    return None


# Look


async def list_all(arguments: argparse.Namespace, services: Services) -> int:
    """``pml schedules list``: all schedules."""
    rows, unfit = await operations.all_rows(services)
    if arguments.json:
        broken = [{"name": name, "problem": problem} for name, problem in unfit.items()]
        print_json([*(summary_of(plan, state, last) for plan, state, last in rows), *broken])
        return 0
    if not rows and not unfit:
        say("There are no schedules; pml schedules add makes one.")
        return 0
    if rows:
        columns = ("name", "what", "when", "state", "next", "last", "ended")
        shown = [summary_of(plan, state, last) for plan, state, last in rows]
        print_table(
            columns,
            [[_cell(row, column) for column in columns] for row in shown],
            whole=("name", "next", "last", "ended"),
        )
    for name, problem in unfit.items():
        sys.stderr.write(f"pml: {name}: does not fit: {problem}\n")
    return 0


def _cell(row: dict[str, Any], column: str) -> str:
    last = row["last"] or {}
    value = {"next": row["next"], "last": last.get("due"), "ended": last.get("status")}.get(column, row.get(column))
    return "-" if value is None else str(value)[:16] if column in ("next", "last") else str(value)


async def show(arguments: argparse.Namespace, services: Services) -> int:
    """All of one."""
    plan, ledger = await plan_called(services, arguments.name), ledger_of(services)
    state = await ledger.state(plan.name)
    last = await ledger.claim_at(state.last) if state.last else None
    about = summary_of(plan, state, last)
    more: dict[str, Any] = {
        "upcoming": upcoming_of(plan, state),
        "runs": state.runs,
        "missed": state.missed,
        "under_way": [key.partition("@")[2] for key in state.going],
        "declared": plan.declared,
        "principal": plan.principal,
        "schedule": to_plain(plan.schedule),
        "problem": likely_problem(plan.schedule, services.catalog) or None,
    }
    print_json(services.redact({**about, **more}))
    return 0


async def history(arguments: argparse.Namespace, services: Services) -> int:
    """The runs of one."""
    if not 1 <= arguments.limit <= MOST:
        raise InvalidArguments(f"--limit must be 1 to {MOST}")
    from .history_view import RunView

    ledger = ledger_of(services)
    claims = await ledger.claims({"schedule": arguments.name})
    if not claims:
        await plan_called(services, arguments.name)
    latest = sorted(claims, key=lambda claim: claim.due, reverse=True)[: arguments.limit]
    rows = [await RunView.of(claim, services.store.executions) for claim in latest]
    if arguments.json:
        print_json([row.plain() for row in rows])
    elif not rows:
        say("It has not run yet.")
    else:
        print_table(RunView.COLUMNS, [row.cells() for row in rows], whole=("due", "status", "execution"))
    return 0


def _status(claim: Claim) -> str:
    return claim.status or claim.state


def _next_words(plan: Plan, state: State) -> str:
    shown = summary_of(plan, state, None)
    if shown["state"] == "paused":
        return "it is paused"
    return f"next at {shown['next']}" if shown["next"] else "it is over"


def _done(arguments: argparse.Namespace, name: str, what: str) -> None:
    if arguments.json:
        print_json({"name": name, "state": what})
    else:
        say(f"{name} is {what}.")
