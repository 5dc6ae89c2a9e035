"""A schedule with its name: what the gateway goes by."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pml_hookspecs import Identity

from .cron import zone
from .settings import NAME, NAME_SHAPE, Schedule, Settings, from_plain
from .times import Times

if TYPE_CHECKING:
    from pml_hookspecs import Document


@dataclass(frozen=True, slots=True)
class Plan:
    """One schedule."""

    name: str
    schedule: Schedule
    times: Times
    principal: str
    declared: bool
    """Whether it stands in the configuration; else in the store."""
    version: int = 0
    """Version of the plan's document."""

    @property
    def digest(self) -> str:
        """Changes with its times."""
        times = self.times
        parts = [times.cron, times.time_zone, times.every_s, _text(times.start), times.jitter_s]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]

    @property
    def identity(self) -> Identity:
        """For whom it runs."""
        return Identity(principal=self.principal, scopes=frozenset(self.schedule.scopes))

    @property
    def when(self) -> str:
        """Its times in a few words."""
        schedule = self.schedule
        return f"{schedule.cron} ({self.times.time_zone})" if schedule.cron else f"every {spoken(schedule.every_s)}"

    @property
    def what(self) -> str:
        """What it runs, in a few words."""
        work = self.schedule.work
        target = getattr(self.schedule, work)
        if isinstance(target, Mapping):
            inner = target.get("workflow", target)
            tasks = inner.get("tasks") if isinstance(inner, Mapping) else None
            return f"workflow of {len(tasks)} tasks" if isinstance(tasks, list) else "workflow by intent"
        return f"{work} {target}"

    def next(self, after: datetime, runs: int) -> datetime | None:
        """When it is due after ``after``, having run ``runs`` times; None when it is over."""
        return None if self.is_spent(runs) else self.times.next(after)

    def is_spent(self, runs: int) -> bool:
        """Whether it has run as often as it may."""
        return 0 < self.schedule.max_runs <= runs


def plan_of(name: str, schedule: Schedule, settings: Settings, *, declared: bool, version: int = 0) -> Plan:
    """The plan of a schedule.

    Raises:
        ValueError: The name is none, or there is no such time zone.
    """
    if not NAME.fullmatch(name):
        raise ValueError(f"{name[:200]!r} is no name for a schedule; names are {NAME_SHAPE}")
    time_zone = schedule.time_zone or settings.time_zone
    zone(time_zone)
    times = Times(
        name=name,
        cron=schedule.cron,
        time_zone=time_zone,
        every_s=schedule.every_s,
        start=_utc(schedule.start, time_zone),
        until=_utc(schedule.until, time_zone),
        jitter_s=schedule.jitter_s,
    )
    return Plan(name, schedule, times, schedule.principal or settings.principal, declared, version)


def plan_from(document: Document, settings: Settings) -> Plan:
    """The plan that is kept.

    Raises:
        ValueError: It does not fit any more.
    """
    schedule = from_plain(document.value["schedule"])
    return plan_of(document.key, schedule, settings, declared=False, version=document.version)


def _utc(moment: datetime | None, time_zone: str) -> datetime | None:
    if moment is None:
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=zone(time_zone))).astimezone(UTC)


def _text(moment: datetime | None) -> str:
    return "" if moment is None else moment.isoformat()


def spoken(duration_s: float) -> str:
    """Such as ``90 s``, ``15 min``, ``2 h`` or ``7 d``: in the largest unit that it is a whole number of."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if duration_s >= size and duration_s % size == 0:
            return f"{duration_s // size:.0f} {unit}"
    return f"{duration_s:g} s"
