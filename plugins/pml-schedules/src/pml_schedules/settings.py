"""``[plugins.schedules]``, and what a schedule says, whether it stands there or in the store."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal

from pml_hookspecs import setting

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
NAME_SHAPE = "1 to 100 of letters, digits, _ . and -, a letter or digit first"
WORKS = ("workflow", "agent", "capability", "tool")
SYSTEM = "system"
"""Scope of keys that see everything; nothing else has it."""
LONGEST_S = 366 * 24 * 3600.0
Missed = Literal["skip", "once", "all"]
Overlap = Literal["allow", "skip", "queue"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """``[plugins.schedules.schedules.NAME]``: when to run what."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    cron: str = setting("", "When: minute hour day-of-month month day-of-week, such as '30 7 * * MON-FRI'.")
    time_zone: str = setting("", "Of cron, such as 'Europe/Berlin'. Empty: that of the plugin.")
    every_s: float = setting(0.0, "Instead of cron: how often [s].", ge=0, le=LONGEST_S)
    start: datetime | None = setting(
        None, "Not before this time; every_s counts from it, else from 1970-01-01T00:00Z. Without an offset: time_zone."
    )
    until: datetime | None = setting(None, "Not after this time. Without an offset: in time_zone.")
    max_runs: int = setting(0, "How often in all; 0 for no end.", ge=0)
    jitter_s: float = setting(0.0, "Each run is later by some part of this, the same on all gateways [s].", ge=0)
    workflow: str | dict[str, Any] = setting(
        "", "What: a plan as execute_workflow takes it, or the path of a JSON file with one, read for each run."
    )
    agent: str = setting("", "Instead: a configured agent, which gets the message.")
    message: str = setting("", "For the agent.")
    capability: str = setting("", "Instead: the id of a learned capability.")
    inputs: dict[str, Any] = setting(dict, "Of the capability.")
    tool: str = setting("", "Instead: a tool, such as 'server:tool'.")
    arguments: dict[str, Any] = setting(dict, "Of the tool, or of the agent besides its message.")
    intent: str = setting("", "What it is for, in the history; a workflow's own comes first.")
    dry_run: bool = setting(False, "Rehearse only.")
    principal: str = setting("", "For whom it runs, with what they may do. Empty: that of the plugin.", project="never")
    scopes: tuple[str, ...] = setting((), "Scopes that it runs with; system is refused.")
    missed: Missed = setting(
        "once", "What becomes of times at which no gateway was up: skip, once for all of them, or all."
    )
    most_missed: int = setting(10, "With all: the last so many.", ge=1, le=1000)
    overlap: Overlap = setting(
        "skip", "What becomes of a time at which the run before is still under way: allow, skip, or queue behind it."
    )
    timeout_s: float = setting(0.0, "A run that takes longer is stopped; 0 for no limit [s].", ge=0)
    paused: bool = setting(False, "Do not run until `pml schedules resume`.")

    def __post_init__(self) -> None:
        """Check what types cannot say.

        Raises:
            ValueError: It does not fit; says what to change.
        """
        if bool(self.cron) == bool(self.every_s):
            raise ValueError("give either cron or every_s")
        if self.every_s and self.every_s < 1:
            raise ValueError(f"every_s: {self.every_s:g} is too often; 1 is the least")
        if self.cron:
            from .cron import check_cron

            check_cron(self.cron)
        if self.time_zone:
            from .cron import zone

            zone(self.time_zone)
        if SYSTEM in self.scopes:
            raise ValueError(f"scopes: {SYSTEM!r} is what keys made with pml keys create --system have, and no others")
        self._check_work()
        if self.start is not None and self.until is not None and _span(self.start, self.until) <= timedelta(0):
            raise ValueError("until: must be later than start")

    def _check_work(self) -> None:
        given = [name for name in WORKS if getattr(self, name)]
        if len(given) != 1:
            named = " and ".join(given) or "none"
            raise ValueError(f"give exactly one of {', '.join(WORKS)}, not {named}")
        needed = {"message": ("agent",), "inputs": ("capability",), "arguments": ("tool", "agent")}
        for name, owners in needed.items():
            if getattr(self, name) and given[0] not in owners:
                raise ValueError(f"{name}: means nothing for a {given[0]}; it belongs to {' or '.join(owners)}")
        if self.agent and not self.message:
            raise ValueError("message: is missing; say what the agent is to do")
        if isinstance(self.workflow, Mapping):
            from .plan_file import check_plan

            check_plan(self.workflow)

    @property
    def work(self) -> str:
        """Which of :data:`WORKS` it runs."""
        return next(name for name in WORKS if getattr(self, name))


def _span(start: datetime, until: datetime) -> timedelta:
    """From one to the other; both as if in UTC where one says no offset."""
    if (start.tzinfo is None) != (until.tzinfo is None):
        start, until = start.replace(tzinfo=None), until.replace(tzinfo=None)
    return until - start


def to_plain(schedule: Schedule) -> dict[str, Any]:
    """``schedule`` as JSON, without what is as usual."""
    plain: dict[str, Any] = {}
    for field in fields(schedule):
        value = getattr(schedule, field.name)
        usual = field.default_factory() if callable(field.default_factory) else field.default
        if value != usual:
            plain[field.name] = value.isoformat() if isinstance(value, datetime) else value
    return plain


def from_plain(plain: Mapping[str, Any]) -> Schedule:
    """What :func:`to_plain` wrote.

    Raises:
        ValueError: It does not fit any more.
    """
    members = dict(plain)
    try:
        for name in ("start", "until"):
            if name in members:
                members[name] = datetime.fromisoformat(members[name])
        if "scopes" in members:
            members["scopes"] = tuple(members["scopes"])
        return Schedule(**members)
    except TypeError as exc:
        raise ValueError(f"it was kept by another version: {exc}") from exc


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """``[plugins.schedules]``."""

    schedules: dict[str, Schedule] = setting(
        dict, "Schedules by name; `pml schedules add` makes more.", project="never"
    )
    time_zone: str = setting("UTC", "Of schedules that name none.")
    principal: str = setting("local", "For whom schedules run that name nobody.")
    look_s: float = setting(
        2.0,
        "How often to look for what others changed, such as `pml schedules`, and for runs that ended [s].",
        ge=0.05,
        le=60,
    )
    late_s: float = setting(
        60.0, "A time that is over for longer when it is seen counts as missed [s].", ge=1, le=86_400
    )
    lease_s: float = setting(
        30.0, "A run that a gateway took and has not begun for so long is begun by another [s].", ge=0.1, le=3600
    )
    keep_days: int = setting(90, "How long the history of schedules is kept [days].", ge=1, le=3650)
