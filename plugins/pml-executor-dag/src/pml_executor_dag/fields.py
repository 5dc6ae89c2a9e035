"""Reads members of JSON objects, strictly, and collects everything that is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pml_kit.plain import parsed

from .plan import did_you_mean

MOST_MISTAKES = 100
"""Lines of one message."""
LONGEST_TEXT, LONGEST_CODE = 10_000, 1_000_000
"""Longest name, intent or condition, and longest code [characters]."""
WORD = re.compile(r"[a-z][a-z0-9_+#.-]{0,63}")
"""What a language can be called."""
LARGEST = 1e15
"""Numbers beyond are not shown."""


def refusal(mistakes: Sequence[str]) -> str:
    """One message for everything that is wrong with a plan."""
    count = f"{len(mistakes)} mistakes" if len(mistakes) > 1 else "1 mistake"
    more = [f"and {len(mistakes) - MOST_MISTAKES} more"] if len(mistakes) > MOST_MISTAKES else []
    lines = "".join(f"\n- {mistake}" for mistake in [*mistakes[:MOST_MISTAKES], *more])
    return f"Nothing was run; the workflow has {count}:{lines}"


def kind(value: Any) -> str:
    """What ``value`` is in JSON, in words."""
    names = {bool: "a boolean", str: "a string", int: "a number", float: "a number", type(None): "null"}
    if isinstance(value, Mapping):
        return "an object"
    return names.get(type(value), "an array" if isinstance(value, (list, tuple)) else type(value).__name__)


class Fields:
    """Every reading method returns something usable, also when what is there is wrong."""

    def __init__(self) -> None:
        self.mistakes: list[str] = []
        """``where: what`` lines."""

    def wrong(self, where: str, what: str) -> None:
        """Note a mistake."""
        self.mistakes.append(f"{where}: {what}")

    def names(self, given: Mapping[str, Any], known: Iterable[str], where: str, elsewhere: str = "") -> None:
        """Note members that are not among ``known``; ``elsewhere`` tells of a place where more are."""
        known = tuple(known)
        for name in given:
            if name not in known:
                # Comparing words takes time, and a message does not show more lines than that.
                near = did_you_mean(name, known) if len(self.mistakes) < MOST_MISTAKES else ""
                self.wrong(f"{where}{name[:80]}", f"unknown{near or '; known here: ' + ', '.join(known) + elsewhere}")

    def text(
        self, given: Mapping[str, Any], name: str, where: str, *, needed: str = "", most: int = LONGEST_TEXT
    ) -> str:
        """A string of ``most`` characters at most; ``""`` without one.

        ``needed`` says what to do when it is missing or empty.
        """
        value: Any = given.get(name, "")
        if not isinstance(value, str):
            self.wrong(f"{where}{name}", f"must be a string, not {kind(value)}")
            return ""
        if len(value) > most:
            self.wrong(f"{where}{name}", f"has {len(value)} characters; at most {most}")
            return ""
        if needed and not value:
            self.wrong(f"{where}{name}", f"{'is empty' if name in given else 'is missing'}; {needed}")
        return str(value)

    def boolean(self, given: Mapping[str, Any], name: str, where: str) -> bool:
        """False without one."""
        value = given.get(name, False)
        if not isinstance(value, bool):
            self.wrong(f"{where}{name}", f"must be true or false, not {kind(value)}")
            return False
        return value

    def number(
        self, given: Mapping[str, Any], name: str, where: str, *, least: float, most: float, unit: str = ""
    ) -> float | None:
        """A number in a range; None without one."""
        if name not in given:
            return None
        value = given[name]
        numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
        # Not a number is in no range; integers may be too large to be shown.
        if not numeric or not least <= value <= most:
            shown = f"{value:g}" if numeric and -LARGEST < value < LARGEST else kind(value)
            self.wrong(f"{where}{name}", f"must be a number from {least:g} to {most:g}{unit}, not {shown}")
            return None
        return float(value)

    def whole(self, given: Mapping[str, Any], name: str, where: str, *, least: int, most: int) -> int | None:
        """A whole number in a range; None without one."""
        number = self.number(given, name, where, least=least, most=most)
        if number is None or number == int(number):
            return None if number is None else int(number)
        self.wrong(f"{where}{name}", f"must be a whole number, not {number:g}")
        return None

    def object(self, given: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
        """Empty without one; what a string spells counts as well."""
        value = parsed(given.get(name, {}))
        if not isinstance(value, Mapping):
            self.wrong(f"{where}{name}", f"must be an object, not {kind(value)}")
            return {}
        return value

    def choice(self, given: Mapping[str, Any], name: str, where: str, choices: tuple[str, ...]) -> str:
        """One of ``choices``; the first one without any."""
        value = given.get(name, choices[0])
        if not isinstance(value, str) or value not in choices:
            shown = repr(value[:80]) if isinstance(value, str) else kind(value)
            self.wrong(f"{where}{name}", f"must be {one_of(choices)}, not {shown}")
            return choices[0]
        return value

    def word(self, given: Mapping[str, Any], name: str, where: str, default: str) -> str:
        """A name that somebody installed knows, such as a language's; ``default`` without any."""
        value = given.get(name, default)
        if not isinstance(value, str) or not WORD.fullmatch(value):
            shown = repr(value[:80]) if isinstance(value, str) else kind(value)
            self.wrong(f"{where}{name}", f"must be the name of a language, such as {default!r}, not {shown}")
            return default
        return value


def one_of(choices: Iterable[str]) -> str:
    """``'a', 'b' or 'c'``."""
    *first, last = (repr(choice) for choice in choices)
    return f"{', '.join(first)} or {last}" if first else last
