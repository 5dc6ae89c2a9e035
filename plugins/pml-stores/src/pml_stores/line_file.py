"""A file of lines that one process appends to. POSIX: it locks with ``flock``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from errno import EBADF
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class LineFile:
    """Each line is whole or not there at all, whenever the process is killed. A lost power supply may cost the last."""

    def __init__(self, path: Path, head: bytes) -> None:
        """No I/O. ``head`` is the first line, which says in which form the others are.

        Beside the file are, with other endings, one that is locked and one that takes its place.
        """
        self.path, self._head = path, head
        self._lock = self._file = -1
        self.count = 0
        """Lines but for the first."""
        self.size_bytes = 0

    def open(self, read: Callable[[bytes], T]) -> list[T]:
        """Take the file for this process, and read its lines; ``read`` says what one means, ValueError for nothing.

        What was being written when a process ended, and is no whole line, is cut off. RuntimeError where another
        process has it, another version wrote it, or a line means nothing; the message says which.
        """
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self._take()
            return [self._read(line, number, read) for number, line in enumerate(self._lines(), 2)]
        except BaseException:
            self.close()
            raise

    def _take(self) -> None:
        import fcntl  # not on every system that imports this module

        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            raise RuntimeError(f"{self.path} is in use by another gateway; give this one another path") from exc

    def _lines(self) -> list[bytes]:
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        whole, end, _cut_off = self.path.read_bytes().rpartition(b"\n")
        head, *lines = whole.split(b"\n") if end else [self._head]
        if head != self._head:
            raise RuntimeError(f"{self.path} was written by another version of this store: {head[:80]!r}")
        self.size_bytes = len(whole + end)
        os.truncate(self._file, self.size_bytes)
        if not end:
            self.append([self._head])
        self.count = len(lines)
        return lines

    def _read(self, line: bytes, number: int, read: Callable[[bytes], T]) -> T:
        try:
            return read(line)
        except ValueError as exc:
            remedy = "take the line out, or move the file away to start with an empty one"
            raise RuntimeError(f"{self.path} line {number} cannot be read ({exc}); {remedy}") from exc

    def append(self, lines: Sequence[bytes]) -> None:
        """Add lines, which have no line break. OSError when they cannot be written; none of them is there then."""
        if self._file < 0:
            raise OSError(EBADF, "it is closed", str(self.path))
        data = b"".join(line + b"\n" for line in lines)
        try:
            _write(self._file, data)
        except OSError:
            os.truncate(self._file, self.size_bytes)
            raise
        self.size_bytes += len(data)
        self.count += len(lines)

    def replace(self, lines: Iterable[bytes]) -> None:
        """Have these lines instead of all others, in one step; OSError, and the others stay, if that cannot be."""
        new, count, size = self.path.with_suffix(".new"), -1, 0
        file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            for line in (self._head, *lines):
                _write(file, line + b"\n")
                count, size = count + 1, size + len(line) + 1
            os.fsync(file)
            new.replace(self.path)
        except BaseException:
            os.close(file)
            new.unlink(missing_ok=True)
            raise
        os.close(self._file)
        self._file, self.count, self.size_bytes = file, count, size

    def close(self) -> None:
        """Let others have it."""
        for file in (self._file, self._lock):
            if file >= 0:
                os.close(file)
        self._file = self._lock = -1


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]
