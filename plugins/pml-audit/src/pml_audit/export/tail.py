"""Rows after one that is known, as they are written, and how far they have been handed on."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

from pml_audit.files import PRIVATE
from pml_audit.heads import trail_id
from pml_audit.rows import START, InvalidRowError, Tip, read

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pml_audit.files import Files

NAME = "audit.exported"
CURSOR_BYTES = 4096


class Tail:
    """Reads on where it stopped; a file that was full meanwhile is read to its end first."""

    def __init__(self, files: Files, after: Tip) -> None:
        """The next row is the one after ``after``."""
        self._files, self.tip = files, after
        self._file: BinaryIO | None = None

    def next(self, most: int) -> list[dict[str, Any]]:
        """The next rows, ``most`` at most, as far as the head says that they are written; :attr:`tip` is the last."""
        head = self._files.read_head()
        rows: list[dict[str, Any]] = []
        while head is not None and self.tip.n < head.tip.n and len(rows) < most:
            line = b"" if self._file is None else self._line(self._file)
            if not line:
                if not self._turn():
                    break
                continue
            with suppress(InvalidRowError):
                row = read(line[:-1])
                if row["n"] > self.tip.n:
                    rows.append(row)
                    self.tip = Tip(row["n"], row["hash"])
        return rows

    @staticmethod
    def _line(file: BinaryIO) -> bytes:
        """The next whole line; nothing is read where there is none."""
        at = file.tell()
        line = file.readline()
        if line.endswith(b"\n"):
            return line
        file.seek(at)
        return b""

    def _turn(self) -> bool:
        """Go on in the file after the open one, or in the one that the next row is in; False where there is none."""
        paths = self._files.all()
        if self._file is None:
            full = [n for n, path in enumerate(self._files.full()) if int(path.stem[6:]) <= self.tip.n + 1]
            at = full[-1] if full else 0
        else:
            mine = os.fstat(self._file.fileno())
            at = 1 + next((n for n, path in enumerate(paths) if os.path.samestat(path.stat(), mine)), len(paths))
        if at >= len(paths):
            return False
        self.close()
        self._file = paths[at].open("rb")
        return True

    def close(self) -> None:
        """Close what is open; where the next row is, is looked for anew."""
        if self._file is not None:
            self._file.close()
            self._file = None


class Cursor:
    """How far rows were handed on to each target, beside the files. Of several gateways one has it."""

    def __init__(self, folder: Path) -> None:
        """Nothing is open yet."""
        self._folder = folder
        self._fd: int | None = None
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Have it alone until :meth:`close`; False where another gateway has it."""
        import fcntl  # not on every system that imports this module

        with self._lock:
            if self._fd is None:
                fd = os.open(self._folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.close(fd)
                    return False
                self._fd = fd
        return True

    def of(self, target: str) -> Tip:
        """How far; ``START`` for a new target, and for a trail that was begun anew."""
        trail = trail_id(self._folder)
        with self._lock:
            known = self._read().get(target)
        if not isinstance(known, dict) or known.get("trail") != trail:
            return START
        return Tip(int(known["n"]), str(known["hash"]))

    def keep(self, target: str, tip: Tip) -> None:
        """Rows up to ``tip`` have arrived."""
        about = {"trail": trail_id(self._folder), **tip._asdict()}
        with self._lock:
            if self._fd is not None:
                text = json.dumps({**self._read(), target: about}).encode().ljust(CURSOR_BYTES)
                os.pwrite(self._fd, text, 0)
                os.ftruncate(self._fd, len(text))

    def _read(self) -> Mapping[str, Any]:
        return {} if self._fd is None else _mapping(os.pread(self._fd, 1 << 16, 0))

    def close(self) -> None:
        """Let another gateway have it."""
        with self._lock:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None


def kept(folder: Path) -> Mapping[str, Any]:
    """What each target has, for whoever only looks."""
    try:
        return _mapping((folder / NAME).read_bytes())
    except OSError:
        return {}


def _mapping(raw: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(raw)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
