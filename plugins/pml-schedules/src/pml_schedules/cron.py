"""Cron expressions and time zones, with messages that say what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

FIELDS = (
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of the month", "1 to 31, L for the last, LW for the last from Monday to Friday"),
    ("month", "1 to 12, or JAN to DEC"),
    (
        "day of the week",
        "0 to 7, both ends being Sunday, or SUN to SAT; MON#1 is the first Monday, 5L the last Friday",
    ),
)
"""Name and values of each field, in order."""
SHAPE = "minute hour day-of-month month day-of-week, such as '30 7 * * MON-FRI'"
SHORT = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)
WITH_SECONDS = 6


def check_cron(expression: str) -> None:
    """See that ``expression`` is a cron expression of five fields that comes true some day.

    Raises:
        ValueError: It is not; says which field and why.
    """
    parts = expression.split()
    if len(parts) == 1 and parts[0].startswith("@"):
        instead = SHORT.get(parts[0].lower())
        hint = f"write '{instead}'" if instead else f"write five fields: {SHAPE}"
        raise ValueError(f"cron: {expression!r} is not understood; {hint}")
    if len(parts) != len(FIELDS):
        hint = "; there is none for seconds: use every_s for those" if len(parts) == WITH_SECONDS else ""
        raise ValueError(f"cron: {expression!r} has {len(parts)} fields, not five ({SHAPE}){hint}")
    for i, part in enumerate(parts):
        # In a field of its own, between stars: so the library's complaint is about this one.
        if not _fits(" ".join(part if i == j else "*" for j in range(len(FIELDS)))):
            name, values = FIELDS[i]
            ways = "*, one value, a list 1,2, a range 1-5 from the lesser to the greater, or a step */5"
            raise ValueError(
                f"cron: field {i + 1} of {expression!r}, the {name}: {part!r} does not fit; write {ways}; "
                f"values are {values}"
            )
    if not _fits(expression) or next(moments(expression, "UTC", SOME_DAY), None) is None:
        raise ValueError(f"cron: {expression!r} never comes: no such month has that day")


def _fits(expression: str) -> bool:
    from cronsim import CronSim, CronSimError

    try:
        CronSim(expression, SOME_DAY)
    except (CronSimError, ValueError, TypeError, AssertionError):
        return False
    return True


def moments(expression: str, time_zone: str, after: datetime) -> Iterator[datetime]:
    """When ``expression`` comes true after ``after``, in order, in UTC; ends when it does not any more.

    As Debian's cron has it where clocks are put forward and back: what names an hour runs once on such a day, right
    after the gap if its time is in it; what says ``*`` for minute or hour goes by elapsed time.
    """
    from cronsim import CronSim

    last = after
    for local in CronSim(expression, after.astimezone(zone(time_zone))):
        moment = local.astimezone(UTC)
        # In an hour that comes twice, the library also tells of the first one when asked from within the second.
        if moment > last:
            last = moment
            yield moment


@lru_cache(maxsize=64)
def zone(name: str) -> ZoneInfo:
    """The time zone of that name.

    Raises:
        ValueError: There is none; says which have names like it.
    """
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # OSError: the name of a folder of zones
        raise ValueError(f"time_zone: there is no {name!r}{_near(name)}") from None


def _near(name: str) -> str:
    from difflib import get_close_matches
    from zoneinfo import available_timezones

    known = {each.lower(): each for each in available_timezones()}
    asked = name.strip().lower().replace(" ", "_")[:64]
    places: dict[str, str] = {}
    for each in sorted(known):
        places.setdefault(each.rpartition("/")[2], known[each])
    found = [known[each] for each in get_close_matches(asked, known, n=3, cutoff=0.75)]
    found += [places[each] for each in get_close_matches(asked.rpartition("/")[2], places, n=3, cutoff=0.75)]
    near = list(dict.fromkeys(found))[:3]
    if not near:
        return "; names are like 'Europe/Berlin' or 'UTC'"
    return f"; did you mean {' or '.join(repr(each) for each in near)}?"
