"""Reads times and sizes as people write them on a command line: ``30d``, ``2026-11-01``, ``5 GiB``."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from pml_hookspecs import InvalidArguments

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
UNITS_BYTES = {
    "": 1, "b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "tb": 1000**4,
    "kib": 1024, "mib": 1024**2, "gib": 1024**3, "tib": 1024**4,
}  # fmt: skip
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


def moment(text: str, option: str, now: datetime, *, local: bool = False, ends: bool = False) -> datetime:
    """``30d`` before ``now``, or the date or time that is written.

    Args:
        text: An age, or a time in ISO 8601.
        option: What a message calls it.
        now: UTC.
        local: Whether a time without a zone is that of this machine; else it is UTC.
        ends: Whether something ends then: a date alone is the end of its day, and it may lie ahead.

    Raises:
        InvalidArguments: It is neither, or lies ahead.
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
    if found > now and not ends:
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


def size_bytes(text: str, option: str) -> int:
    """``1GB`` as a thousand million bytes, ``1GiB`` as 1024³.

    Raises:
        InvalidArguments: It is no size.
    """
    match = AMOUNT.fullmatch(text.strip())
    if match is None or (unit := match[2].lower()) not in UNITS_BYTES:
        raise InvalidArguments(f"{option} {text!r}: give a size such as 500MB, 1GB or 2GiB.")
    return round(float(match[1]) * UNITS_BYTES[unit])
