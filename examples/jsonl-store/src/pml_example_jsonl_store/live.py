"""The lines that count: of each kind and key the last one."""

from __future__ import annotations

import json
from collections.abc import Callable, ValuesView
from typing import Any


class Live:
    """Hands each line to the part of the store that it belongs to, and remembers those that count."""

    def __init__(self) -> None:
        self._parts: dict[str, Callable[[str, Any], None]] = {}
        self._lines: dict[tuple[str, str], bytes] = {}

    def part(self, kind: str, apply: Callable[[str, Any], None]) -> None:
        """Have ``apply(key, value)`` called for every line of a kind; None for a value means that it is gone."""
        self._parts[kind] = apply

    def apply(self, line: bytes) -> None:
        """Take note of ``[kind, key, value]``."""
        kind, key, value = json.loads(line)
        self._parts[kind](key, value)
        if value is None:
            self.forget(kind, key)
        else:
            self._lines[kind, key] = line

    def forget(self, kind: str, key: str) -> int:
        """Drop what does not count any more; how many bytes that frees."""
        return len(self._lines.pop((kind, key), b""))

    def __contains__(self, kind_and_key: object) -> bool:
        return kind_and_key in self._lines

    @property
    def lines(self) -> ValuesView[bytes]:
        """All that count."""
        return self._lines.values()

    @property
    def size_bytes(self) -> int:
        """How long they are."""
        return sum(map(len, self._lines.values()))
