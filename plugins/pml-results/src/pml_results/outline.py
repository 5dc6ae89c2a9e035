"""The beginning of a value or a text, cut to a number of tokens so that what is left out is said where it is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pml_kit.mcp.tokens import estimate

from .levels import Raw, level, size_of, whole

STEPS = ((20, 400), (10, 200), (5, 120), (3, 80), (2, 40), (1, 30))
"""Items of each array and characters of each text that are shown, tried in this order until it fits."""
MOST_MEMBERS = 40
"""Members of each object that are shown."""
DEEPEST = 8
CHARACTERS_PER_TOKEN = 3
"""No text that is this long for each token of a budget fits it, but for one of spaces."""
LINE = 400
"""Characters of a line that are shown."""
HEAD_PART = 2 / 3
"""Of the lines shown, those from the beginning."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The beginning of an array, an object or a text, and how much there was."""

    value: Any
    count: int


def value_outline(raw: Raw, budget_tokens: int) -> str:
    """The first items of a JSON value, as JSON but for the notes of what is left out; about ``budget_tokens`` long.

    Raises:
        ValueError: It is no JSON.
    """
    beginning, text = _beginning(raw), ""
    for items, characters in STEPS:
        text = json.dumps(_shown(beginning, items, characters), ensure_ascii=False, separators=(",", ":"))
        if len(text) <= budget_tokens * CHARACTERS_PER_TOKEN * 2 and estimate(text) <= budget_tokens:
            return text
    return cut_text(text, budget_tokens * CHARACTERS_PER_TOKEN)


def _beginning(raw: Raw, depth: int = 0) -> Any:
    """As much of a value as the widest step shows: each array and object as a :class:`Cut`."""
    value = level(raw)
    if isinstance(value, str):
        return Cut(value[: STEPS[0][1]], len(value))
    if isinstance(value, Mapping):
        names = list(value)[:MOST_MEMBERS] if depth < DEEPEST else []
        return Cut({name: _beginning(value[name], depth + 1) for name in names}, len(value))
    if isinstance(value, list):
        first = value[: STEPS[0][0]] if depth < DEEPEST else []
        return Cut([_beginning(item, depth + 1) for item in first], len(value))
    return value


def _shown(cut: Any, items: int, characters: int) -> Any:
    if not isinstance(cut, Cut):
        return cut
    if isinstance(cut.value, str):
        text = cut.value[:characters]
        return text if cut.count == len(text) else f"{text}... ({cut.count:,} characters)"
    if isinstance(cut.value, dict):
        shown = {name: _shown(member, items, characters) for name, member in cut.value.items()}
        return shown if cut.count == len(shown) else {**shown, "...": f"{cut.count - len(shown):,} more members"}
    first = [_shown(item, items, characters) for item in cut.value[:items]]
    return first if cut.count == len(first) else [*first, f"... {cut.count - len(first):,} more items"]


def cut_text(text: str, most: int) -> str:
    """``text``, or its beginning with a note of how long it was."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def text_outline(text: str, budget_tokens: int) -> str:
    """The first and the last lines of ``text``, as many as fit, and how many are left out between them."""
    lines = text.splitlines()
    room = budget_tokens * CHARACTERS_PER_TOKEN
    head = _within(lines, room * HEAD_PART)
    tail = _within(lines[: -len(head) - 1 : -1] if head else lines[::-1], room - sum(map(len, head)))[::-1]
    if len(head) == 1 and len(lines) == 1:
        half = room // 2
        return f"{text[:half]}\n... {len(text) - 2 * half:,} characters ...\n{text[len(text) - half :]}"
    missing = len(lines) - len(head) - len(tail)
    return "\n".join([*head, f"... {missing:,} lines ...", *tail]) if missing > 0 else "\n".join([*head, *tail])


def _within(lines: Sequence[str], characters: float) -> list[str]:
    """The first ones that are no longer than this together, and one in any case."""
    found: list[str] = []
    for line in lines:
        shown = cut_text(line, LINE)
        characters -= len(shown) + 1
        if characters < 0 and found:
            break
        found.append(shown)
        if characters < 0:
            break
    return found


def fits(text: str, budget_tokens: int) -> bool:
    """Whether ``text`` is at most about ``budget_tokens`` long; looks at no more of it than is needed."""
    if len(text) <= budget_tokens:
        return True
    return len(text) <= budget_tokens * 12 and estimate(text) <= budget_tokens


def printed(raw: Raw, width: int = 160) -> str:
    """JSON text with a line for each member or item that is not short, so that lines can be counted and searched.

    Raises:
        ValueError: It is no JSON.
    """
    return "\n".join(_lines(raw, width, "", ""))


def _lines(raw: Raw, width: int, before: str, after: str) -> list[str]:
    if size_of(raw) <= width * 4:
        short = json.dumps(whole(raw), ensure_ascii=False, separators=(", ", ": "))
        if len(short) <= width:
            return [f"{before}{short}{after}"]
    value = level(raw)
    if isinstance(value, Mapping):
        parts, ends = [(f"{json.dumps(name, ensure_ascii=False)}: ", member) for name, member in value.items()], "{}"
    elif isinstance(value, Sequence) and not isinstance(value, str):
        parts, ends = [("", item) for item in value], "[]"
    else:
        return [f"{before}{json.dumps(value, ensure_ascii=False)}{after}"]
    found = [before + ends[0]]
    for at, (name, member) in enumerate(parts, 1):
        found += _lines(member, width, name, "," if at < len(parts) else "")
    return [*found, ends[1] + after]
