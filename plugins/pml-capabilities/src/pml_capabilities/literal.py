"""What is known of literals in code, whatever its language."""

from __future__ import annotations

import math
from dataclasses import dataclass

LARGEST = 2**53
"""Whole numbers beyond are not the same in every language."""


@dataclass(frozen=True, slots=True)
class Literal:
    """One literal, by its place in the source [characters]."""

    start: int
    end: int
    value: str | float | bool
    name: str = ""
    """What it is for there: an argument, a member, a variable; ``""`` when nothing tells."""
    declares: bool = False
    """Whether the code as a whole has a variable :attr:`name` of its own, made of this literal."""

    @property
    def kind(self) -> str:
        """``text``, ``number`` or ``truth``."""
        if isinstance(self.value, bool):
            return "truth"
        return "text" if isinstance(self.value, str) else "number"


@dataclass(frozen=True, slots=True)
class LiteralScan:
    """The literals of a piece of code in order, and the names of its variables."""

    literals: tuple[Literal, ...] = ()
    variables: frozenset[str] = frozenset()


NONE = LiteralScan()


def usable(value: object) -> bool:
    """Whether a value is the same as JSON and in every language."""
    if isinstance(value, str):
        return not any("\ud800" <= char <= "\udfff" for char in value)
    if isinstance(value, bool):
        return True
    if isinstance(value, int):
        return abs(value) <= LARGEST
    return isinstance(value, float) and math.isfinite(value)
