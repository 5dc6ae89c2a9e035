"""The parts of an intent that may each be a step."""

from __future__ import annotations

import re

MOST = 12
FEWEST_WORDS = 2
"""What has fewer words is no step of its own."""
BREAK = re.compile(
    r"(?<=[.!?;:\u3002\uff01\uff1f\uff1b])\s+|[\n]+"
    r"|,?\s+(?:and then|then|and also|after that|afterwards|finally|next)\s+"
    r"|,\s+(?:and\s+)?(?=[^\W\d_]{2,}\s)|\s+and\s+(?=[a-z]+\s)",
    re.IGNORECASE,
)


def clauses(intent: str) -> list[str]:
    """In order, each once; the intent itself when it has but one part."""
    parts = [part.strip(" ,;:.") for part in BREAK.split(intent)]
    found = [part for part in dict.fromkeys(parts) if len(part.split()) >= FEWEST_WORDS]
    return found[:MOST] or ([intent.strip()] if intent.strip() else [])
