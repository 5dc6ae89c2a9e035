"""Which modes are in use, and how that changes: full_proxy → hybrid → semantic → meta_only. Nothing is sent."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionRecord

LADDER = ("full_proxy", "hybrid", "semantic", "meta_only")
"""Modes by what they put into a context, the most first."""


def ordered(modes: Collection[str]) -> list[str]:
    """The order from full_proxy to meta_only, then other modes by name."""
    return [mode for mode in LADDER if mode in modes] + sorted(set(modes).difference(LADDER))


def week_of(moment: datetime) -> str:
    """The ISO week, such as ``2026-W47``."""
    year, week, _ = moment.isocalendar()
    return f"{year}-W{week:02}"


@dataclass(frozen=True, slots=True)
class Change:
    """A client came by another mode than the time before."""

    at: datetime
    endpoint: str
    principal: str
    before: str
    after: str

    @property
    def step(self) -> int:
        """Steps down the ladder; negative for up, 0 for a mode that is not on it."""
        if self.before not in LADDER or self.after not in LADDER:
            return 0
        return LADDER.index(self.after) - LADDER.index(self.before)

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        who = {"endpoint": self.endpoint, "principal": self.principal}
        return {"at": self.at.isoformat(), **who, "from": self.before, "to": self.after, "step": self.step}


@dataclass
class EndpointUse:
    """What clients of one endpoint asked for."""

    modes: Counts[str] = field(default_factory=Counts)
    """Executions by mode."""
    weeks: dict[str, Counts[str]] = field(default_factory=dict)
    """Executions by ISO week and mode, the earliest first."""
    changes: list[Change] = field(default_factory=list)
    """The earliest first."""
    last: dict[str, str] = field(default_factory=dict)
    """The mode that each principal last came by."""


@dataclass
class Adoption:
    """Use of modes by endpoint."""

    endpoints: dict[str, EndpointUse] = field(default_factory=dict)

    def add(self, record: ExecutionRecord) -> None:
        """One execution more that a client asked for; later ones come later. What has no mode is left out."""
        if not record.mode:
            return
        use = self.endpoints.setdefault(record.endpoint, EndpointUse())
        use.modes[record.mode] += 1
        use.weeks.setdefault(week_of(record.started_at), Counts())[record.mode] += 1
        before = use.last.get(record.principal)
        if before is not None and before != record.mode:
            use.changes.append(Change(record.started_at, record.endpoint, record.principal, before, record.mode))
        use.last[record.principal] = record.mode

    def modes(self) -> list[str]:
        """The modes in use, in order."""
        return ordered({mode for use in self.endpoints.values() for mode in use.modes})

    def changes(self) -> list[Change]:
        """The changes at all endpoints, the earliest first."""
        return sorted((change for use in self.endpoints.values() for change in use.changes), key=lambda one: one.at)

    def conversion(self) -> str:
        """How many changes led down the ladder, and how many back."""
        steps = [change.step for change in self.changes()]
        return f"{sum(step > 0 for step in steps)} towards meta_only, {sum(step < 0 for step in steps)} back"

    def as_json(self) -> Mapping[str, Any]:
        """For machines, by endpoint."""
        return {
            name: {
                "modes": dict(use.modes),
                "weeks": {week: dict(counts) for week, counts in use.weeks.items()},
                "changes": [change.as_json() for change in use.changes],
                "forward": sum(change.step > 0 for change in use.changes),
                "back": sum(change.step < 0 for change in use.changes),
            }
            for name, use in sorted(self.endpoints.items())
        }
