"""Bytes to lines, in linear time however they are cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

KEPT = 4096
"""How much of either end of an oversized line is kept, to find the id in it [bytes]."""

SMALL = 4096
JOINED_PARTS = 256
"""So many parts in a row smaller than :data:`SMALL` become one: each costs some forty bytes besides its own."""


@dataclass(frozen=True, slots=True)
class OversizedLine:
    """What is left of a line that was too long."""

    head: bytes
    tail: bytes
    size: int
    """Length of the whole line [bytes]."""


class Lines:
    """Cuts a stream at line feeds. What exceeds the limit is skipped to its end without being kept."""

    def __init__(self, limit: int) -> None:
        """Take ``limit``, the length of the longest line [bytes], not counting its line feed."""
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._small = 0
        """Parts at the end that are small."""
        self._head: bytes | None = None
        """Start of the line that is being skipped; None while none is."""

    def feed(self, data: bytes) -> Sequence[bytes | OversizedLine]:
        """The lines that ``data`` completes, in order and without their line feeds."""
        lines = data.split(b"\n")
        rest = lines.pop()
        found: Sequence[bytes | OversizedLine] = lines
        if lines and (self._parts or len(data) > self._limit):
            self._hold(lines[0])
            first = self._release()
            others = map(self._checked, lines[1:]) if len(data) > self._limit else lines[1:]
            found = [first, *others]
        if rest:
            self._hold(rest)
        return found

    def close(self) -> Sequence[bytes | OversizedLine]:
        """The line that the stream ended in, if it did not end in a line feed; empty otherwise."""
        return [self._release()] if self._parts else []

    def _hold(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        self._small = self._small + 1 if len(part) < SMALL else 0
        if self._small == JOINED_PARTS:
            self._parts[-JOINED_PARTS:] = [b"".join(self._parts[-JOINED_PARTS:])]
            self._small = 0
        if self._size <= self._limit:
            return
        if self._head is None:
            self._head = _start(self._parts)
        self._parts = [_end(self._parts)]
        self._small = 0

    def _release(self) -> bytes | OversizedLine:
        line = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        head, size = self._head, self._size
        self._parts, self._size, self._small, self._head = [], 0, 0, None
        return line if head is None else OversizedLine(head, line, size)

    def _checked(self, line: bytes) -> bytes | OversizedLine:
        return line if len(line) <= self._limit else OversizedLine(line[:KEPT], line[-KEPT:], len(line))


def _start(parts: Iterable[bytes]) -> bytes:
    start = b""
    for part in parts:
        start += part[: KEPT - len(start)]
        if len(start) == KEPT:
            break
    return start


def _end(parts: Sequence[bytes]) -> bytes:
    end = b""
    for part in reversed(parts):
        end = part[-(KEPT - len(end)) :] + end
        if len(end) == KEPT:
            break
    return end
