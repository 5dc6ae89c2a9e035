r"""References to results of other tasks in a text: ``{{task_id.path}}``.

The path walks the result value with ``.name``, ``[0]`` (first item) and ``["any name"]``; ``{{task_id}}`` is the whole
value. ``\{{`` is plain ``{{``; two backslashes before ``{{`` are one backslash and a reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

STEP = r"""\.[^\s.\[\]{}"]+|\[\d{1,9}\]|\["[^"\\]+"\]"""
"""One step of a path, as a regular expression."""
_OPENING = re.compile(r"(\\*)\{\{")
_REFERENCE = re.compile(rf"""\{{\{{\s*([^\s.\[\]{{}}"]+)((?:{STEP})*)\s*\}}\}}""")
_STEPS = re.compile(STEP)
SHOWN = 40
"""Characters of what cannot be read that a message shows."""

Path: TypeAlias = tuple[str | int, ...]
"""Names and positions."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One ``{{…}}``."""

    text: str
    """The reference as it was written."""
    task: str
    path: Path
    """Below the result value; empty for the whole of it."""


def parse(text: str) -> tuple[str | Reference, ...]:
    """Split ``text`` into plain text, escapes undone, and references, in order; empty for an empty text.

    Raises:
        ValueError: A ``{{`` starts no reference; the message is the part of the text that it stands in.
    """
    parts: list[str | Reference] = []
    plain, at = "", 0
    while found := _OPENING.search(text, at):
        backslashes = len(found[1])
        plain += text[at : found.start()] + "\\" * (backslashes // 2)
        if backslashes % 2:
            plain, at = plain + "{{", found.end()
            continue
        reference = _REFERENCE.match(text, found.end() - 2)
        if reference is None:
            raise ValueError(text[found.end() - 2 :][:SHOWN])
        if plain:
            parts.append(plain)
        parts.append(_made(reference))
        plain, at = "", reference.end()
    if rest := plain + text[at:]:
        parts.append(rest)
    return tuple(parts)


def references_in(text: str) -> Iterator[Reference]:
    """Whatever looks like a reference in ``text``, in order; what is before it does not count as an escape."""
    return map(_made, _REFERENCE.finditer(text))


def path_of(steps: str) -> Path:
    """The path that is spelt as ``.items[0]["a name"]``."""
    return tuple(map(_key, _STEPS.findall(steps)))


def _made(found: re.Match[str]) -> Reference:
    return Reference(found[0], found[1], path_of(found[2]))


def _key(step: str) -> str | int:
    if step.startswith("."):
        return step[1:]
    return step[2:-2] if step.startswith('["') else int(step[1:-1])
