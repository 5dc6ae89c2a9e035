"""A file of lines that one process appends to."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path


class LineFile:
    """Each line is whole or not there at all, whenever the process is killed."""

    def __init__(self, path: Path) -> None:
        """No I/O."""
        self.path, self.size_bytes = path, 0
        self._lock = self._file = -1

    def open(self) -> list[bytes]:
        """Take the file for this process, and read its lines.

        Raises:
            RuntimeError: Another process has it.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            os.close(self._lock)
            raise RuntimeError(f"{self.path} is in use by another gateway; give this one another path") from exc
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        whole, newline, _cut_off = self.path.read_bytes().rpartition(b"\n")
        self.size_bytes = len(whole + newline)
        os.truncate(self._file, self.size_bytes)
        return whole.split(b"\n") if newline else []

    def append(self, data: bytes) -> None:
        """Add whole lines.

        Raises:
            OSError: They cannot be written; none of them is there then.
        """
        try:
            _write(self._file, data)
        except OSError:
            os.truncate(self._file, self.size_bytes)
            raise
        self.size_bytes += len(data)

    def replace(self, lines: Iterable[bytes]) -> None:
        """Have these lines instead of all others, in one step.

        Raises:
            OSError: They cannot be written; the others are there then, and go on being added to.
        """
        new, data = self.path.with_suffix(".new"), b"".join(line + b"\n" for line in lines)
        file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            _write(file, data)
            os.fsync(file)
            new.replace(self.path)
        except OSError:
            os.close(file)
            new.unlink(missing_ok=True)
            raise
        os.close(self._file)
        self._file, self.size_bytes = file, len(data)

    def close(self) -> None:
        """Let others have it."""
        os.close(self._file)
        os.close(self._lock)


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]
