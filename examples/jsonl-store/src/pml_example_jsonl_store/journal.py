"""What is in the file: lines such as ``["secret", "http git", "…"]``, of which the last of a kind and key counts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from pml_hookspecs import encode

from .file import LineFile
from .live import Live

HEAD = b'{"pml_jsonl":1}'
GARBAGE = 4
"""A file this many times as large as what counts in it is written anew when it is opened."""


class Journal:
    """Keeps lines, and gives them back when it is opened."""

    def __init__(self, path: Path, interval_s: float) -> None:
        """``interval_s`` is the longest that a line waits in memory [s]."""
        self.file, self.live, self._interval_s = LineFile(path), Live(), interval_s
        self._waiting: list[bytes] = []
        self.drops = 0

    def open(self) -> None:
        """Read the file. Raises RuntimeError when it cannot be used."""
        head, *lines = self.file.open() or [b""]
        if head not in (b"", HEAD):
            self.file.close()
            raise RuntimeError(f"{self.file.path} was written by another version of this store: {head[:80]!r}")
        for line in lines:
            self.live.apply(line)
        if not head or self.file.size_bytes > GARBAGE * self.live.size_bytes:
            self.rewrite()

    def write(self, kind: str, key: str, value: Any, *, soon: bool = False) -> None:
        """Keep ``value``; it is in the file when this returns, or ``soon``. Raises TypeError for what is not JSON."""
        line = encode([kind, key, value])
        self.live.apply(line)
        self._waiting.append(line)
        if not soon:
            self.flush()
        elif len(self._waiting) == 1:
            asyncio.get_running_loop().call_later(self._interval_s, self._flush_later)

    def write_soon(self, kind: str, key: str, value: Any) -> None:
        """As :meth:`write`, for the request path: what cannot be kept is counted."""
        try:
            self.write(kind, key, value, soon=True)
        except Exception:
            self.drops += 1

    def flush(self) -> None:
        """Write what is waiting. What cannot be written goes on waiting."""
        if self._waiting:
            self.file.append(b"".join(line + b"\n" for line in self._waiting))
            self._waiting.clear()

    def _flush_later(self) -> None:
        try:
            self.flush()
        except OSError:
            asyncio.get_running_loop().call_later(1, self._flush_later)

    def rewrite(self) -> None:
        """Leave out of the file what does not count any more."""
        self.file.replace([HEAD, *self.live.lines])
        self._waiting.clear()

    def close(self) -> None:
        """Write what is waiting."""
        try:
            self.flush()
        finally:
            self.file.close()
