"""Work that reading a schema may cost, counted: a bounded depth is not bounded work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_STEPS = 8_000
"""Enough for any honest schema; some schemas would take exponential time. A step is some 5 us."""
PER_STEP = 16
"""Members, items and short texts that are looked through in the time of one step."""
PER_VALUE = 8
"""Members that comparing one value with others costs as much as."""


class UnreadableError(Exception):
    """What a schema says cannot be told; the message says why."""


class OverBudgetError(UnreadableError):
    """What was asked for is more work than it is worth."""


class Budget:
    """Steps of work that are left."""

    def __init__(self, most: int = MOST_STEPS) -> None:
        self._left = most
        self._sizes: dict[int, tuple[Any, int]] = {}

    @property
    def is_spent(self) -> bool:
        """Whether there were more steps than there may be."""
        return self._left < 0

    def spend(self, steps: int = 1) -> None:
        """Count ``steps``.

        Raises:
            OverBudgetError: There were too many.
        """
        self._left -= steps
        if self._left < 0:
            raise OverBudgetError("the schema is too large or refers to itself without end")

    def look_at(self, schema: Mapping[str, Any]) -> None:
        """Count a look at one schema: more for long lists of names and values, which are gone through.

        Raises:
            OverBudgetError: There were too many.
        """
        known = self._sizes.get(id(schema))
        if known is None:
            # Kept with the schema, whose number could become another's.
            known = self._sizes[id(schema)] = (schema, 1 + _size(schema) // PER_STEP)
        self.spend(known[1])


def _size(schema: Mapping[str, Any]) -> int:
    size = len(schema)
    for word, value in schema.items():
        if word == "$ref" and isinstance(value, str):
            size += len(value)
        elif word in ("const", "enum", "default", "examples", "example"):
            size += PER_VALUE * _size_of_data(value)
        elif isinstance(value, (Mapping, list)):
            size += len(value)
    return size


def _size_of_data(value: Any) -> int:
    size, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        size += 1
        if isinstance(one, str):
            size += len(one) // PER_STEP
        elif isinstance(one, Mapping):
            size += len(one)
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return size
