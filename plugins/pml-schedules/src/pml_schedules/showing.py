"""Schedules on the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .ledger import Claim, State
    from .plan import Plan


def told(plan: Plan, state: State, last: Claim | None) -> dict[str, Any]:
    """One schedule in short."""
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


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")


def print_json(value: Any) -> None:
    """Print a document."""
    say(json.dumps(value, indent=2))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], whole: Sequence[str]) -> None:
    """Print a table, columns named in ``whole`` never cut; what is in it is text, whatever it looks like."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for i, column in enumerate(columns):
        width = max(len(printable(row[i])) for row in rows) if column in whole else None
        table.add_column(column, no_wrap=width is not None, min_width=width)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    Console().print(table)


def printable(text: str) -> str:
    """What agents write is not for the terminal to obey."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
