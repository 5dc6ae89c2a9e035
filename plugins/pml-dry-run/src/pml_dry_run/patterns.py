"""Makes up texts that match a regular expression."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from pml_kit.schema.patterns import finds

LONGEST_PATTERN = 500
MOST_PARTS = 4_000
"""Parts of a pattern that are made up, repeated ones each time."""
MOST_REPEATED = 64
LETTERS = string.ascii_lowercase + string.digits + string.ascii_uppercase + "-_. /:@"
"""Tried in this order where a pattern leaves the choice."""
CATEGORIES: Mapping[Any, Callable[[str], bool]] = {
    codes.CATEGORY_DIGIT: str.isdigit,
    codes.CATEGORY_SPACE: str.isspace,
    codes.CATEGORY_WORD: lambda char: char.isalnum() or char == "_",
    codes.CATEGORY_NOT_DIGIT: lambda char: not char.isdigit(),
    codes.CATEGORY_NOT_SPACE: lambda char: not char.isspace(),
    codes.CATEGORY_NOT_WORD: lambda char: not (char.isalnum() or char == "_"),
}


class CannotMatchError(Exception):
    """The pattern asks for something that is not made up here."""


def matching(pattern: str, number: int, *, shortest: int = 0) -> str:
    """A text that ``pattern`` is found in, as Python reads patterns; another ``number``, another text, maybe.

    Args:
        pattern: At most 500 characters.
        number: Chooses among characters.
        shortest: Length that repetitions should reach, if they can [characters].

    Raises:
        CannotMatchError: It has look-arounds, back-references and such, or is too long, or no pattern.
    """
    if len(pattern) > LONGEST_PATTERN:
        raise CannotMatchError("the pattern is too long")
    try:
        parsed = parser.parse(pattern)
    except (re.error, RecursionError, OverflowError) as exc:
        raise CannotMatchError(f"not a pattern: {exc}") from exc
    made = _Maker(number, 0).text(parsed)
    if len(made) < shortest:
        made = _Maker(number, shortest - len(made)).text(parsed)
    if not finds(pattern, made):
        raise CannotMatchError("what was made up does not match")
    return made


class _Maker:
    def __init__(self, number: int, more: int) -> None:
        self._number, self._more = number, more
        self._parts = 0

    def text(self, parsed: Iterable[Any]) -> str:
        return "".join(part for code, value in parsed for part in self._part(code, value))

    def _part(self, code: Any, value: Any) -> Iterator[str]:
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise CannotMatchError("the pattern wants too much")
        if code is codes.LITERAL:
            yield chr(value)
        elif code is codes.ANY:
            yield self._one(LETTERS)
        elif code is codes.NOT_LITERAL:
            yield self._one(char for char in LETTERS if ord(char) != value)
        elif code is codes.IN:
            yield self._one(_members(value))
        elif code is codes.BRANCH:
            yield self.text(value[1][self._turn() % len(value[1])])
        elif code is codes.SUBPATTERN:
            yield self.text(value[3])
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            yield from self._repeated(*value)
        elif code is not codes.AT:
            raise CannotMatchError(f"the pattern has {code}")

    def _repeated(self, least: int, most: int, parsed: Any) -> Iterator[str]:
        if least > MOST_REPEATED:
            raise CannotMatchError("the pattern wants too much")
        times = max(least, min(most, least + 3, 4))
        if self._more and most > times:
            added = min(most - times, self._more, MOST_REPEATED)
            times, self._more = times + added, self._more - added
        for _ in range(times):
            yield self.text(parsed)

    def _turn(self) -> int:
        self._number = (self._number * 6364136223846793005 + 1442695040888963407) % 2**64
        return self._number >> 33

    def _one(self, among: Iterable[str]) -> str:
        chars = list(among)
        if not chars:
            raise CannotMatchError("the pattern has a class that nothing simple is in")
        return chars[self._turn() % min(len(chars), 36)]


def _members(parts: Any) -> list[str]:
    """Characters in a class: of those that are tried, else the first ones of its ranges."""
    negated = bool(parts) and parts[0][0] is codes.NEGATE
    tests = parts[1:] if negated else parts
    found = [char for char in LETTERS if any(_is_in(char, *test) for test in tests) != negated]
    if not found and not negated:
        found = [
            chr(value if code is codes.LITERAL else value[0]) for code, value in tests if code is not codes.CATEGORY
        ]
    return found


def _is_in(char: str, code: Any, value: Any) -> bool:
    if code is codes.LITERAL:
        return bool(ord(char) == value)
    if code is codes.RANGE:
        return bool(value[0] <= ord(char) <= value[1])
    return bool(code is codes.CATEGORY) and value in CATEGORIES and CATEGORIES[value](char)
