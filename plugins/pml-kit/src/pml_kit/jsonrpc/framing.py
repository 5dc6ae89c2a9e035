"""Bytes to lines, in linear time however they are cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

KEPT = 4096
"""How much of either end of an oversized line is kept, to find the id in it [bytes]."""


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
        # One buffer, which goes back to the system as a whole: a list of parts would stay in the heap, resident though
        # free, as long as the line that was made of them is in use.
        self._begun = bytearray()
        """The line that has no end yet; of one that is being skipped, its end."""
        self._size = 0
        self._head: bytes | None = None
        """Start of the line that is being skipped; None while none is."""

    def feed(self, data: bytes) -> Sequence[bytes | OversizedLine]:
        """The lines that ``data`` completes, in order and without their line feeds."""
        lines = data.split(b"\n")
        rest = lines.pop()
        found: Sequence[bytes | OversizedLine] = lines
        if lines and (self._begun or len(data) > self._limit):
            self._hold(lines[0])
            first = self._release()
            others = map(self._checked, lines[1:]) if len(data) > self._limit else lines[1:]
            found = [first, *others]
        if rest:
            self._hold(rest)
        return found

    def close(self) -> Sequence[bytes | OversizedLine]:
        """The line that the stream ended in, if it did not end in a line feed; empty otherwise."""
        return [self._release()] if self._begun else []

    def _hold(self, part: bytes) -> None:
        self._begun += part
        self._size += len(part)
        if self._size <= self._limit:
            return
        if self._head is None:
            self._head = bytes(self._begun[:KEPT])
        del self._begun[:-KEPT]

    def _release(self) -> bytes | OversizedLine:
        line, head, size = bytes(self._begun), self._head, self._size
        self._begun, self._size, self._head = bytearray(), 0, None
        return line if head is None else OversizedLine(head, line, size)

    def _checked(self, line: bytes) -> bytes | OversizedLine:
        return line if len(line) <= self._limit else OversizedLine(line[:KEPT], line[-KEPT:], len(line))
