"""Failures that repeat themselves are one line, not the whole list."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .records import failed, failed_at

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionRecord

MOST_FAILURES = 10
"""Failures in a summary."""
MOST_LOOKED_AT = 500
"""Newest failures that are looked at, to see which repeat themselves."""
COMPARED = 300
"""Characters of a message that are compared."""
VARIES = re.compile(r"[0-9a-f]{8}[0-9a-f-]{4,}|\d+", re.IGNORECASE)
"""Ids and numbers: what differs between two messages of one trouble."""


def repeated(records: Iterable[ExecutionRecord]) -> list[dict[str, Any]]:
    """The newest failures, each agent's alike ones as one, which tells how often and since when.

    Args:
        records: Those that failed, the newest first.
    """
    groups: dict[tuple[str, str, str], dict[str, Any]] = {}
    for record in records:
        said = "" if record.failure is None else record.failure.message[:COMPARED]
        code = "" if record.failure is None else record.failure.code
        group = groups.setdefault((record.agent, code, VARIES.sub("#", said)), {**failed(record), "times": 0})
        group["times"] += 1
        group["first_failed_at"] = failed_at(record)
    return list(groups.values())[:MOST_FAILURES]
