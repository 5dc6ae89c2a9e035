"""Times as people write them on a command line: ``30d``, ``2026-11-01``, ``2026-11-01T12:00Z``."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from pml_hookspecs import InvalidArguments

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


def moment(
    text: str, option: str, now: datetime, *, local: bool = False, ends: bool = False, ahead: bool = False
) -> datetime:
    """``30d`` before ``now``, or the date or time that is written.

    Args:
        text: An age, or a time in ISO 8601.
        option: What a message calls it.
        now: UTC.
        local: Whether a time without a zone is that of this machine; else it is UTC.
        ends: Whether something ends then: a date alone is the end of its day, and it may lie ahead.
        ahead: Whether it may lie ahead in any case.

    Raises:
        InvalidArguments: It is neither, or lies ahead and may not.
    """
    found = _before(text, now)
    if found is None:
        try:
            found = datetime.fromisoformat(text)
            if ends and DATE.fullmatch(text):
                found += timedelta(days=1)
            if found.tzinfo is None:
                found = found.astimezone() if local else found.replace(tzinfo=UTC)
            found = found.astimezone(UTC)
        except (ValueError, OverflowError, OSError):
            raise InvalidArguments(
                f"{option} {text[:40]!r}: give an age such as 30d, 12h or 2w, or a date such as 2026-11-01."
            ) from None
    if found > now and not (ends or ahead):
        raise InvalidArguments(f"{option} {text!r} lies ahead.")
    return found


def _before(text: str, now: datetime) -> datetime | None:
    match = AMOUNT.fullmatch(text.strip())
    if match is None or match[2].lower() not in UNITS_S:
        return None
    try:
        return now - timedelta(seconds=float(match[1]) * UNITS_S[match[2].lower()])
    except OverflowError:
        return None
