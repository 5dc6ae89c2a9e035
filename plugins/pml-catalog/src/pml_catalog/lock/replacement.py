"""A file that several processes replace, one after the other."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

WAIT_S, POLL_S = 10.0, 0.01
"""Longest that one waits for the others, and how often it looks [s]."""


@contextmanager
def replacement(path: Path) -> Iterator[Callable[[bytes], None]]:
    """What puts something in place of a file, in one step, for the only process that may now.

    What is to become the file is the lock at once, so that nothing is left beside it, and one that was killed holds
    nobody up. On a system without locks of files nobody is kept out.

    Raises:
        TimeoutError: Others have it all the time.
        OSError: It cannot be written.
    """
    beside = path.with_name(f".{path.name}.new")
    fd = _alone(beside)
    became = False

    def write(data: bytes) -> None:
        nonlocal became
        os.ftruncate(fd, 0)
        with os.fdopen(fd, "wb", closefd=False) as file:
            file.write(data)
        os.fsync(fd)
        beside.replace(path)
        became = True

    try:
        yield write
    finally:
        if not became:
            beside.unlink(missing_ok=True)
        os.close(fd)


def _alone(beside: Path) -> int:
    until_s = time.monotonic() + WAIT_S
    while True:
        fd = os.open(beside, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        try:
            if _locked(fd) and _is_there(fd, beside):
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        if time.monotonic() > until_s:
            raise TimeoutError
        time.sleep(POLL_S)


def _locked(fd: int) -> bool:
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_there(fd: int, path: Path) -> bool:
    """Whether the file still has this name: the one before may have become what it was made for, or been removed."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
