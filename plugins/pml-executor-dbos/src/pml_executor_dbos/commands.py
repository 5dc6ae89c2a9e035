"""``pml runs``."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Check, InvalidArguments
from pml_kit.offers import report_change
from pml_kit.terminal import print_columns, print_json

from .decisions import decide, found, moment, shown, summary
from .ledger import DatabaseError, Ledger
from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services

SHOWN_ID = 13
"""Characters of an id in a table: those of a UUIDv7 that tell the time."""
NO_GATEWAY_NEEDED = "A running gateway does so within a heartbeat, or the next one when it starts."


@asynccontextmanager
async def _ledger(services: Services) -> AsyncIterator[Ledger]:
    """Raises InvalidArguments where the database cannot be used."""
    ledger = Ledger(services.settings or Settings())
    try:
        yield ledger
    except DatabaseError as exc:
        raise InvalidArguments(str(exc)) from exc
    finally:
        await ledger.close()


async def list_runs(arguments: argparse.Namespace, services: Services) -> int:
    """``pml runs list``."""
    states = (arguments.state,) if arguments.state else ()
    async with _ledger(services) as ledger:
        runs = await ledger.runs(*states, limit=arguments.limit) if _exists(services.settings) else []
    if arguments.json:
        print_json([summary(run) for run in runs])
        return 0
    rows = [
        [
            run.id if arguments.long else run.id[:SHOWN_ID],
            run.state,
            "" if run.outcome is None else str(run.outcome.status),
            moment(run.created_at),
            str(summary(run)["tasks"]),
            run.intent,
        ]
        for run in runs
    ]
    _print(rows, ("id", "state", "status", "began", "tasks", "intent"))
    return 0


def _exists(settings: Settings | None) -> bool:
    file = (settings or Settings()).file
    return file is None or file.exists()


async def show_run(arguments: argparse.Namespace, services: Services) -> int:
    """``pml runs show``."""
    async with _ledger(services) as ledger:
        run = await found(ledger, arguments.run_id)
        told = shown(run, await ledger.tasks(run.id))
    if arguments.json:
        print_json({**told, "request": run.request})
        return 0
    for name in ("id", "state", "status", "intent", "principal", "worker", "created_at", "changed_at"):
        _say(f"{name + ':':12} {told[name] if told[name] not in (None, '') else '-'}")
    if "failure" in told:
        _say(f"{told['failure']['code']}: {told['failure']['message']}")
    states = told["task_states"]
    columns = ("path", "state", "target", "attempts", "started_at")
    _print([[str(task[name]) for name in columns] for task in states], columns)
    return 0


async def resume_run(arguments: argparse.Namespace, services: Services) -> int:
    """``pml runs resume``."""
    async with _ledger(services) as ledger:
        run = await found(ledger, arguments.run_id)
        if not await ledger.ready(run.id):
            raise InvalidArguments(f"run {run.id} is {run.state}; only what is paused or cancelled can be resumed")
    await report_change(services, "runs", "run.resumed", {"run": run.id})
    return _told(arguments, run.id, "ready", f"{run.id} goes on. {NO_GATEWAY_NEEDED}")


async def cancel_run(arguments: argparse.Namespace, services: Services) -> int:
    """``pml runs cancel``."""
    async with _ledger(services) as ledger:
        run = await found(ledger, arguments.run_id)
        if not await ledger.cancel(run.id):
            raise InvalidArguments(f"run {run.id} is {run.state}; there is nothing to cancel")
    await report_change(services, "runs", "run.cancelled", {"run": run.id})
    return _told(arguments, run.id, "cancelled", f"{run.id} is cancelled; no further task begins.")


async def decide_run(arguments: argparse.Namespace, services: Services) -> int:
    """``pml runs decide``."""
    try:
        result = None if arguments.result is None else json.loads(arguments.result)
    except ValueError as exc:
        raise InvalidArguments(f"--result is not JSON: {exc}; a text needs its quotes: '\"text\"'") from exc
    async with _ledger(services) as ledger:
        run = await found(ledger, arguments.run_id)
        left = await decide(ledger, run, arguments.path, arguments.decision, result)
        about = {"run": run.id, "task": arguments.path, "decision": arguments.decision}
        await report_change(services, "runs", "run.decided", about)
        now = await ledger.run(run.id)
    state = "unknown" if now is None else now.state
    more = f"Still in doubt: {', '.join(task.path for task in left)}." if left else NO_GATEWAY_NEEDED
    going = "goes on" if state == "ready" else f"is {state}"
    return _told(arguments, run.id, state, f"{run.id} {going}. {more}", in_doubt=[task.path for task in left])


def _told(arguments: argparse.Namespace, run: str, state: str, text: str, **more: Any) -> int:
    if arguments.json:
        print_json({"id": run, "state": state, **more})
    else:
        _say(text)
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _print(rows: list[list[str]], header: tuple[str, ...]) -> None:
    print_columns(rows, header) if rows else _say("There are none.")


async def check(settings: Settings) -> Check:
    """A line of ``pml plugins doctor``."""
    title, ledger = "durable workflows", Ledger(settings)
    try:
        states = Counter(run.state for run in await ledger.runs()) if _exists(settings) else Counter[str]()
    except DatabaseError as exc:
        remedy = "Set [plugins.dbos] database to a file that can be written, or to a PostgreSQL server that is up."
        return Check(title, False, str(exc), remedy)
    finally:
        await ledger.close()
    told = ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "none yet"
    return Check(title, not states["paused"], told, "See pml runs list --state paused." if states["paused"] else "")


VERBS = {"list": list_runs, "show": show_run, "resume": resume_run, "cancel": cancel_run, "decide": decide_run}
