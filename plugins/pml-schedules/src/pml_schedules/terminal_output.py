"""What ``pml schedules`` prints."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .ledger import Claim, State
    from .plan import Plan


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


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")
