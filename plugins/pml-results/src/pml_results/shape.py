"""What a JSON value is made of, in one line: ``{rows: {id: int, name: str, tags: str[]}[2000], total: int}``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import msgspec

from .levels import Raw, level

DEEPEST = 5
"""Levels that are told of; ``...`` stands for what is below."""
SAMPLE = 50
"""Items of an array that are looked at: its first ones and its last."""
MOST_MEMBERS = 24
"""Members of an object that are named."""
LONGEST_NAME = 60


@dataclass(slots=True)
class Shape:
    """What values at one place are."""

    seen: int = 0
    scalars: set[str] = field(default_factory=set)
    members: dict[str, Shape] = field(default_factory=dict)
    objects: int = 0
    items: Shape | None = None
    lengths: list[int] = field(default_factory=list)
    """Of the arrays at this place."""
    cut: bool = False
    """Whether there was more below than is told."""

    def add(self, raw: Raw, depth: int = 0) -> None:
        """Take in one more value.

        Raises:
            ValueError: It is no JSON.
        """
        self.seen += 1
        value = level(raw)
        if isinstance(value, Mapping):
            self.objects += 1
            for name, member in value.items() if depth < DEEPEST else ():
                self.members.setdefault(name, Shape()).add(member, depth + 1)
            self.cut |= depth >= DEEPEST and bool(value)
        elif isinstance(value, list):
            self.lengths.append(len(value))
            self.items = self.items or Shape()
            for item in _sample(value) if depth < DEEPEST else ():
                self.items.add(item, depth + 1)
            self.cut |= depth >= DEEPEST and bool(value)
        else:
            self.scalars.add(_name_of(value))

    def __str__(self) -> str:
        kinds = sorted(self.scalars)
        if self.objects:
            kinds.append(self._object())
        if self.lengths:
            kinds.append(self._array())
        if not kinds:
            return "nothing"
        return kinds[0] if len(kinds) == 1 else f"({' | '.join(kinds)})"

    def _object(self) -> str:
        if self.cut and not self.members:
            return "{...}"
        shown = []
        for name, member in islice(self.members.items(), MOST_MEMBERS):
            absent = "?" if member.seen < self.objects else ""
            shown.append(f"{_short(name)}{absent}: {member}")
        if len(self.members) > MOST_MEMBERS:
            shown.append(f"{len(self.members) - MOST_MEMBERS} more")
        return "{" + ", ".join(shown) + "}"

    def _array(self) -> str:
        least, most = min(self.lengths), max(self.lengths)
        count = str(most) if least == most else f"{least} to {most}"
        inside = "" if self.items is None or not self.items.seen else str(self.items)
        return f"{inside or '...' if most else ''}[{count}]"


def shape_of(raw: Raw) -> Shape:
    """The shape of one value.

    Raises:
        ValueError: It is no JSON.
    """
    shape = Shape()
    shape.add(raw)
    return shape


def _sample(items: list[msgspec.Raw]) -> list[msgspec.Raw]:
    return items if len(items) <= SAMPLE else [*items[: SAMPLE - 10], *items[-10:]]


def _name_of(value: Any) -> str:
    if value is None:
        return "null"
    return {bool: "bool", int: "int", float: "float"}.get(type(value), "str")


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME] + "..."
