"""How two definitions differ, for people."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from pml_kit.terminal import printable

MOST_LINES, LONGEST_LINE, MOST_DEPTH = 500, 500, 40
"""Of one member that are shown, characters of each, and levels that have lines of their own."""


def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Lines, member by member; nothing is in one that people would not see, or a terminal obey."""
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            old, new = (_text(side[name]) if name in side else [] for side in (before, now))
            yield f"  {printable(name)}:"
            yield from (f"    {printable(line)}" for line in list(difflib.unified_diff(old, new, n=1, lineterm=""))[2:])


def _text(value: Any) -> list[str]:
    lines = value.splitlines() if isinstance(value, str) else []
    if not isinstance(value, str):
        _write(value, "", lines, 0)
    shown = [line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…" for line in lines[:MOST_LINES]]
    return shown if len(lines) <= MOST_LINES else [*shown, "… and more"]


def _write(value: Any, head: str, lines: list[str], depth: int) -> None:
    """JSON by lines. Python's own goes through all levels for each word of a deep one."""
    if len(lines) > MOST_LINES:
        return
    indent = " " * depth
    if not value or not isinstance(value, (Mapping, list, tuple)) or depth >= MOST_DEPTH:
        lines.append(f"{indent}{head}{_compact(value)}")
        return
    begin, end = "{}" if isinstance(value, Mapping) else "[]"
    lines.append(f"{indent}{head}{begin}")
    if isinstance(value, Mapping):
        for name, member in value.items():
            _write(member, f"{json.dumps(name, ensure_ascii=False)}: ", lines, depth + 1)
    else:
        for member in value:
            _write(member, "", lines, depth + 1)
    lines.append(f"{indent}{end}")


def _compact(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=dict)
    except RecursionError:
        return "…"
