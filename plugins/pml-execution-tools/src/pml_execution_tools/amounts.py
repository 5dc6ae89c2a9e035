"""Times and sizes as people write them on a command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from pml_hookspecs import InvalidArguments

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
UNITS_BYTES = {
    "": 1, "b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "tb": 1000**4,
    "kib": 1024, "mib": 1024**2, "gib": 1024**3, "tib": 1024**4,
}  # fmt: skip
AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


def moment(text: str, option: str, now: datetime) -> datetime:
    """``30d`` before ``now``, or the date or time that is written; one without a zone is UTC.

    Raises:
        InvalidArguments: It is neither, or lies ahead.
    """
    before = _before(text, now)
    if before is None:
        try:
            before = datetime.fromisoformat(text)
        except ValueError:
            raise InvalidArguments(
                f"{option} {text!r}: give an age such as 30d, 12h or 2w, or a date such as 2026-11-01."
            ) from None
        before = before if before.tzinfo is not None else before.replace(tzinfo=UTC)
    if before > now:
        raise InvalidArguments(f"{option} {text!r} lies ahead.")
    return before.astimezone(UTC)


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
