"""What is different between two JSON values, for people to read; and texts in which nothing hides."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import ndiff
from itertools import islice, zip_longest
from typing import Any, Literal

LONGEST = 300
"""Characters of one side of a difference that are shown."""
MOST_LINES = 200
"""Lines up to which two texts are compared line by line."""
MOST_CHANGES = 100
DEEPEST = 20
"""Levels that are looked into; what is below is one value."""
MISSING = object()
INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Categories of characters that are not seen, or that change how others are."""


@dataclass(frozen=True, slots=True)
class Change:
    """One member that is different."""

    path: str
    """Such as ``to.address[0]`` or ``["a.b"]``; ``""`` for the value itself."""
    kind: Literal["added", "removed", "changed"]
    before: str = ""
    now: str = ""
    lines: tuple[str, ...] = ()
    """Of a text of several lines: each begins with ``+`` or ``-``, or with a space where it is in both."""


def changes(before: Any, now: Any) -> list[Change]:
    """What is different, in the order of ``now``; at most :data:`MOST_CHANGES`. Empty when nothing is."""
    return list(islice(_changes(before, now, "", 0), MOST_CHANGES))


def visible(text: str) -> str:
    """``text`` with the code in place of each character that would not be seen, or would turn others around."""
    return "".join(
        f"\\u{ord(one):04x}" if unicodedata.category(one) in INVISIBLE and one not in "\n\t" else one for one in text
    )


def _changes(before: Any, now: Any, path: str, depth: int) -> Iterator[Change]:
    if before is MISSING:
        yield Change(path, "added", now=_short(now))
    elif now is MISSING:
        yield Change(path, "removed", before=_short(before))
    elif _text(before) == _text(now):
        return
    elif isinstance(before, Mapping) and isinstance(now, Mapping) and depth < DEEPEST:
        for name in dict.fromkeys([*now, *before]):
            yield from _changes(before.get(name, MISSING), now.get(name, MISSING), _inside(path, name), depth + 1)
    elif isinstance(before, list) and isinstance(now, list) and depth < DEEPEST:
        for index, (one, other) in enumerate(zip_longest(before, now, fillvalue=MISSING)):
            yield from _changes(one, other, f"{path}[{index}]", depth + 1)
    else:
        yield Change(path, "changed", _short(before), _short(now), _lines(before, now))


def _inside(path: str, name: str) -> str:
    """The path of a member: one whose name could be taken for a path is quoted."""
    if not name.isidentifier():
        return f"{path}[{_short(json.dumps(name, ensure_ascii=False))}]"
    return f"{path}.{_short(name)}" if path else _short(name)


def _lines(before: Any, now: Any) -> tuple[str, ...]:
    if not isinstance(before, str) or not isinstance(now, str) or "\n" not in before + now:
        return ()
    old, new = before.splitlines(), now.splitlines()
    if max(len(old), len(new)) > MOST_LINES or max(map(len, [*old, *new]), default=0) > LONGEST:
        return ()
    return tuple(visible(line) for line in ndiff(old, new) if not line.startswith("?"))


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    left = len(text) - LONGEST
    return visible(text) if left <= 0 else f"{visible(text[:LONGEST])}… ({left:,} more characters)"


def _text(value: Any) -> str:
    """Equal for what is equal as JSON: ``1`` is not ``true``."""
    return json.dumps(value, sort_keys=True)
