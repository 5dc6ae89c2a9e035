"""Take one change out of a text that has been changed further since."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import TypeAlias

_PIECE = re.compile(r"[^{}\[\],\n]*[{}\[\],\n]|[^{}\[\],\n]+")
"""What a change of JSON or TOML is made of, also where all of it stands on one line."""
Hunk: TypeAlias = tuple[int, int, list[str]]
"""Pieces from here to there, and what stands in their place instead."""


def without_change(before: str, after: str, now: str) -> str | None:
    """``now`` without what made ``after`` of ``before``; None where the two changes touch the same place."""
    base, own, theirs = (_PIECE.findall(text) for text in (after, before, now))
    taken_back, made_since = _hunks(base, own), _hunks(base, theirs)
    hunks = [*taken_back, *(hunk for hunk in made_since if hunk not in taken_back)]
    hunks.sort(key=lambda hunk: hunk[:2])
    result: list[str] = []
    position = 0
    last: Hunk | None = None
    for start, end, pieces in hunks:
        if start < position or (last is not None and last[:2] == (start, end)):
            return None
        result += base[position:start] + pieces
        position, last = end, (start, end, pieces)
    return "".join(result + base[position:])


def _hunks(one: Sequence[str], other: Sequence[str]) -> list[Hunk]:
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    rest = 0
    while rest < min(len(one), len(other)) - same and one[-1 - rest] == other[-1 - rest]:
        rest += 1
    first, second = one[same : len(one) - rest], other[same : len(other) - rest]
    matcher = SequenceMatcher(None, first, second)
    return [
        (same + start, same + end, list(second[begin:stop]))
        for kind, start, end, begin, stop in matcher.get_opcodes()
        if kind != "equal"
    ]
