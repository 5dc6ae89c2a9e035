"""How two definitions differ, for people."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from pml_kit.terminal import printable


def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Lines, member by member; nothing is in one that people would not see, or a terminal obey."""
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            old, new = (_text(side[name]) if name in side else [] for side in (before, now))
            yield f"  {printable(name)}:"
            yield from (f"    {printable(line)}" for line in list(difflib.unified_diff(old, new, n=1, lineterm=""))[2:])


def _text(value: Any) -> list[str]:
    return value.splitlines() if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False).split("\n")
