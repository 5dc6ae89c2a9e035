"""Values and names in messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pml_hookspecs import encode

MOST_CHARACTERS = 40
MOST_NAMES = 12


def short(value: Any) -> str:
    """``value`` as JSON, cut when it is long."""
    try:
        text = encode(value).decode()
    except (RecursionError, TypeError):
        text = type(value).__name__
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"


def kind(value: Any) -> str:
    """What ``value`` is in JSON, in words."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "an array"
    return f"the string {short(value)}" if isinstance(value, str) else short(value)


def a(type_: str) -> str:
    """``an integer``, ``a string``, ``null``."""
    if type_ == "null":
        return type_
    return f"{'an' if type_[:1] in 'aeiou' else 'a'} {type_}"


def either(types: Iterable[str]) -> str:
    """``an array or an object``."""
    return " or ".join(a(name) for name in sorted(types))


def listed(names: Iterable[Any]) -> str:
    """Some names, and how many there are besides."""
    every = [str(name) for name in names]
    more = f" and {len(every) - MOST_NAMES} more" if len(every) > MOST_NAMES else ""
    return f"{', '.join(every[:MOST_NAMES])}{more}"


def nearest(name: str, known: Iterable[str], count: int = 1, least: float = 0.6) -> list[str]:
    """Names that look like ``name``, best first."""
    from difflib import get_close_matches

    return get_close_matches(name[:64], list(known), n=count, cutoff=least)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?``, or ``""`` when nothing is near."""
    near = nearest(name, known)
    return f"; did you mean {near[0]!r}?" if near else ""
