"""What mended mistakes: how calls that worked differ from those before them that failed.

Says nothing that a server or a caller wrote but names of parameters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from .example import placeholder
from .shape import is_plain

SOON = timedelta(minutes=10)
"""A call that works within this time after one that failed may have mended it."""
OFTEN = 2
"""Times that the same change must have mended a call."""
MOST_CHANGES = 2
"""Changes between two calls of which one may be what mended it."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool, oldest first among others."""

    at: datetime
    agent: str
    arguments: Mapping[str, Any]
    worked: bool


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """What a call that failed had, and what one that worked had in its place: names, or kinds of one parameter."""

    parameter: str
    before: str
    after: str

    def __str__(self) -> str:
        if self.parameter:
            return f"{self.parameter!r} as {self.after}, not {self.before}"
        if self.before and self.after:
            return f"{self.after!r}, not {self.before!r}"
        return f"with {self.after!r}" if self.after else f"without {self.before!r}"

    def holds(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a call is as after the change."""
        if self.parameter:
            return self.parameter not in arguments or placeholder(arguments[self.parameter]) != self.before
        return self.before not in arguments and (not self.after or self.after in arguments)


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change that mended calls."""

    change: Change
    times: int

    def __str__(self) -> str:
        return f"failed {self.times} times until: {self.change}"


def remedy_of(calls: Sequence[Call]) -> Remedy | None:
    """The change that mended most failed calls; None when none did so often.

    What some call that worked contradicts is no reason.

    Args:
        calls: Of one tool as it is defined now, oldest first.
    """
    mended: Counter[Change] = Counter()
    failed: dict[str, list[Call]] = {}
    for call in calls:
        if not call.worked:
            failed.setdefault(call.agent, []).append(call)
            continue
        for one in failed.pop(call.agent, ()):
            if call.at - one.at <= SOON:
                mended.update(_changes(one.arguments, call.arguments))
    good = [call for call in calls if call.worked]
    sure = {change: times for change, times in mended.items() if all(change.holds(one.arguments) for one in good)}
    if not sure:
        return None
    change, times = min(sure.items(), key=lambda found: (-found[1], found[0]))
    return Remedy(change, times) if times >= OFTEN else None


def _changes(failed: Mapping[str, Any], worked: Mapping[str, Any]) -> list[Change]:
    gone, new = sorted(failed.keys() - worked.keys()), sorted(worked.keys() - failed.keys())
    if not all(map(is_plain, (*failed, *worked))):
        return []
    if len(gone) == 1 and len(new) == 1:
        changes = [Change("", gone[0], new[0])]
    else:
        changes = [*(Change("", name, "") for name in gone), *(Change("", "", name) for name in new)]
    for name in sorted(failed.keys() & worked.keys()):
        before, after = placeholder(failed[name]), placeholder(worked[name])
        if before != after:
            changes.append(Change(name, before, after))
    return changes if len(changes) <= MOST_CHANGES else []
