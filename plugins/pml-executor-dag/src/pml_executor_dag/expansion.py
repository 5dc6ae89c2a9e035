"""How much larger a plan may make results by putting them into arguments again and again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pml_kit.references import Reference

from .references import ExpansionListener, TooLargeError

MOST_OF_TASK = 4 * 1024 * 1024
"""What references bring into the arguments of one task, each result's first use aside [characters, about]."""
MOST_OF_WORKFLOW = 64 * 1024 * 1024
"""The same limit for all tasks together; what is written into text counts from its first use on."""
PER_VALUE = 16
"""What a member or an item counts besides its text."""


class Expansion:
    """What the references of one workflow have brought in."""

    def __init__(self) -> None:
        self._left = MOST_OF_WORKFLOW

    def of_task(self) -> ExpansionListener:
        """Counts for the arguments of one task; raises TooLargeError when they, or all together, are too much."""
        left, seen = MOST_OF_TASK, set[str]()

        def count(reference: Reference, value: Any, *, whole: bool) -> None:
            nonlocal left
            again = reference.task in seen
            seen.add(reference.task)
            if whole and not again:
                return
            size = size_of(value, MOST_OF_WORKFLOW)
            self._left -= size
            left -= size if again else 0
            if left < 0 or self._left < 0:
                raise TooLargeError(
                    f"{reference.text} makes the arguments too large: results that are put in again may have "
                    f"{MOST_OF_TASK >> 20} MiB in one task and {MOST_OF_WORKFLOW >> 20} MiB in one workflow."
                )

        return count


def size_of(value: Any, most: int) -> int:
    """About the characters of ``value`` as JSON; something above ``most`` when there are more."""
    size, waiting = 0, [value]
    while waiting and size <= most:
        one = waiting.pop()
        size += PER_VALUE
        if isinstance(one, str):
            size += len(one)
        elif isinstance(one, Mapping):
            size += PER_VALUE * len(one) + sum(map(len, map(str, one)))
            waiting += one.values()
        elif isinstance(one, (list, tuple)):
            size += PER_VALUE * len(one)
            if size <= most:
                waiting += one
    return size
