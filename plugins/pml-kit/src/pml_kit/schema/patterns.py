"""Regular expressions of others: how heavy they are, and whether a linear engine finds them in a text.

No pattern from a schema is ever given to :mod:`re`, whose search can be made to last as long as the universe.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

HEAVIEST = 50_000
"""Weight of the heaviest pattern that is tried on a text."""
LONGEST_TEXT = 10_000
"""Longest text that a pattern is tried on [characters]."""
SIZE_LIMIT = 1 << 20
"""Largest compiled pattern [bytes]."""

_REPEATED = re.compile(r"(\)?)\{(\d{1,6})(?:,(\d{0,6}))?\}")
_AROUND = ("(?=", "(?!", "(?<")
_LOOKS = 800
"""Steps of a pattern that looks around, which no linear engine takes."""
_MOST_TIMES = 400_000_000


def pattern_weight(pattern: Any) -> int:
    """About how many states a regular expression has; 0 for what is no text."""
    return _weight(pattern) if isinstance(pattern, str) else 0


@lru_cache(maxsize=1024)
def _weight(pattern: str) -> int:
    states, times = len(pattern), 1
    for group, least, most in _REPEATED.findall(pattern):
        number = max(int(least), int(most or 0), 1)
        if group:
            times = min(times * number, _MOST_TIMES)
        else:
            states += number
    classes = 30 if "\\" in pattern or "." in pattern or not pattern.isascii() else 1
    return states * times * classes + (_LOOKS if _looks_around(pattern) else 0)


def _looks_around(pattern: str) -> bool:
    return any(look in pattern for look in _AROUND) or re.search(r"\\[1-9k]", pattern) is not None


def finds(pattern: Any, text: str) -> bool | None:
    """Whether ``pattern`` is found in ``text``; None where nobody can tell within bounds.

    What looks around or refers back is nothing for a linear engine. Needs ``jsonschema-rs``.
    """
    if not isinstance(pattern, str) or len(text) > LONGEST_TEXT or pattern_weight(pattern) > HEAVIEST:
        return None
    found = _compiled(pattern)
    try:
        return None if found is None else bool(found.is_valid(text))
    except ValueError:  # a lone surrogate, say
        return None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    """A validator of texts that ``pattern`` is found in; None where it is no pattern for a linear engine."""
    from jsonschema_rs import RegexOptions, validator_for

    try:
        return validator_for({"pattern": pattern}, pattern_options=RegexOptions(size_limit=SIZE_LIMIT))
    except ValueError:
        return None
