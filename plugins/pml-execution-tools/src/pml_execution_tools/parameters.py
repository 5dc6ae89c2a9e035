"""What stands in a URL, as the arguments of a tool."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
FLAGS = {"true": True, "1": True, "false": False, "0": False}


class InvalidParametersError(Exception):
    """Parameters of a URL are wrong; the message names every mistake."""


def arguments_of(items: Iterable[tuple[str, str]], rules: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The query of a URL, each value of the type that its rule in a JSON Schema says.

    An empty value counts as left out. Whether values are within their limits is for the tool to say.

    Raises:
        InvalidParametersError: A parameter is unknown, given twice, or not of its type.
    """
    made: dict[str, Any] = {}
    problems = []
    seen = set()
    for name, text in items:
        if name in seen:
            problems.append(f"{name!r} is given more than once")
        elif name not in rules:
            problems.append(f"unknown parameter {name!r}; known: {', '.join(rules) or 'none'}")
        elif text:
            what, read = READERS[rules[name]["type"]]
            made[name] = read(text)
            if made[name] is None:
                problems.append(f"{name!r} must be {what}, not {text[:40]!r}")
        seen.add(name)
    if problems:
        raise InvalidParametersError(f"{'; '.join(problems)}.")
    return made


def _number(text: str) -> float | None:
    if not NUMBER.fullmatch(text) or not text.isascii():
        return None
    value = float(text)
    if math.isinf(value):
        return None
    return int(value) if value.is_integer() else value


def _flag(text: str) -> bool | None:
    return FLAGS.get(text.lower())


def _text(text: str) -> str:
    return text


READERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "string": ("a string", _text),
    "number": ("a number", _number),
    "integer": ("a whole number", _number),
    "boolean": ("true or false", _flag),
}
