"""The files of an audit: rows, the head, and the lock."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .rows import Tip

CURRENT = "audit.jsonl"
HEAD = "audit.head"
LOCK = "audit.lock"
HEAD_BYTES = 256
PRIVATE_FOLDER, PRIVATE = 0o700, 0o600
LOCK_S = 5.0
"""Longest that one process waits for another [s]."""
POLL_S = 0.002


@dataclass(frozen=True, slots=True)
class Head:
    """What the last writer left: a second account of how far the rows go."""

    tip: Tip
    size: int
    """Size of the current file up to the end of the row [bytes]."""


class Files:
    """Names and how to open them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.current = folder, folder / CURRENT
        self._head = folder / HEAD

    def make(self) -> None:
        """Make the folder, for nobody else to look into."""
        self.folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)

    def full(self) -> list[Path]:
        """Files that are full, in the order of their rows."""
        return sorted(self.folder.glob("audit-" + "[0-9]" * 12 + ".jsonl"))

    def all(self) -> list[Path]:
        """Files that there are, in the order of their rows."""
        return [*self.full(), *([self.current] if self.current.exists() else [])]

    def open(self) -> int:
        """The current file, to read and to append to."""
        return os.open(self.current, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, PRIVATE)

    def put_away(self, first: int) -> None:
        """Make the current file a full one whose first row is number ``first``."""
        while (self.folder / f"audit-{first:012d}.jsonl").exists():
            first += 1  # somebody put it there; nothing is overwritten
        self.current.rename(self.folder / f"audit-{first:012d}.jsonl")

    def read_head(self) -> Head | None:
        """None when there is none, or none that can be read."""
        try:
            told = json.loads(self._head.read_bytes())
            return Head(Tip(int(told["n"]), str(told["hash"])), int(told["size"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def write_head(self, head: Head, *, sync: bool) -> None:
        """In the place of the one before.

        One write of a few bytes at a fixed place: a power cut leaves the old one or the new, and an old one is no harm.
        So only the first has to be waited for.
        """
        told = json.dumps({"n": head.tip.n, "hash": head.tip.hash, "size": head.size}).ljust(HEAD_BYTES - 1) + "\n"
        fd = os.open(self._head, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        try:
            new = not os.fstat(fd).st_size
            os.pwrite(fd, told.encode(), 0)
            os.ftruncate(fd, HEAD_BYTES)
            if sync and new:
                os.fsync(fd)
        finally:
            os.close(fd)

    def sync_folder(self) -> None:
        """Wait until the names of new files are on disk."""
        fd = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    @contextmanager
    def locked(self, *, shared: bool = False) -> Iterator[None]:
        """Have the files alone, or with others who only read.

        Raises:
            TimeoutError: Another process has had them for five seconds.
        """
        fd = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        try:
            until_s = time.monotonic() + LOCK_S
            while not _lock(fd, shared=shared):
                if time.monotonic() > until_s:
                    raise TimeoutError(f"{self.folder}: another process has had the lock for {LOCK_S:g} s")
                time.sleep(POLL_S)
            yield
        finally:
            os.close(fd)


def _lock(fd: int, *, shared: bool) -> bool:
    import fcntl  # not on every system that imports this module

    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def read_all(fd: int, size: int) -> bytes:
    """The first ``size`` bytes of a file."""
    parts, at = [], 0
    while at < size:
        part = os.pread(fd, size - at, at)
        if not part:
            break
        parts.append(part)
        at += len(part)
    return b"".join(parts)
