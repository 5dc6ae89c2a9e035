"""Files of a folder that code may have written into: no link in it is ever followed."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import storage_error

LOCK_S = 10.0
"""Longest wait for somebody else [s]."""
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
# A pipe that code has put there must not keep anybody waiting.
_FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_BY_DESCRIPTOR = os.open in os.supports_dir_fd and os.rename in os.supports_dir_fd
"""Without, a folder can be exchanged for a link between the look and the use; links that lie there are still seen."""


class Folder:
    """A folder and those in it. Names are relative, with ``/``, and made of checked parts; files are small."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self) -> None:
        """Make the folder.

        Raises:
            FileExistsError: It is there.
        """
        self.path.mkdir(mode=0o700)

    def exists(self) -> bool:
        """Whether it is there, and no link."""
        return self.path.is_dir() and not self.path.is_symlink()

    def read(self, name: str, most_bytes: int) -> bytes:
        """Content of a file.

        Raises:
            OSError: It is not there, or no plain file, or larger than ``most_bytes``.
        """
        with self._place(name) as (last, at):
            if at is None and Path(last).is_symlink():
                raise OSError(errno.ELOOP, "a link")
            descriptor = os.open(last, _FILE, dir_fd=at)
            with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise OSError(errno.EINVAL, "no plain file")
                data = file.read(most_bytes + 1)
        if len(data) > most_bytes:
            raise OSError(errno.EFBIG, f"larger than {most_bytes} bytes")
        return data

    def write(self, name: str, data: bytes) -> None:
        """Put a file there, whole or not at all, in place of what is there.

        Raises:
            OSError: It cannot be written.
        """
        with self._place(name, make=True) as (last, at):
            temporary = f"{last}.{secrets.token_hex(6)}.tmp"
            if at is None:
                temporary = str(Path(last).with_name(Path(temporary).name))
            try:
                with open(os.open(temporary, _NEW, 0o600, dir_fd=at), "wb") as file:  # noqa: PTH123 - a descriptor
                    file.write(data)
                os.replace(temporary, last, src_dir_fd=at, dst_dir_fd=at)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=at)
                raise

    def remove(self, name: str) -> None:
        """Take a file away if it is there.

        Raises:
            OSError: It cannot be.
        """
        with suppress(FileNotFoundError), self._place(name) as (last, at):
            os.unlink(last, dir_fd=at)

    @contextmanager
    def _place(self, name: str, *, make: bool = False) -> Iterator[tuple[str, int | None]]:
        """The last part of ``name``, and the folder it is in as a descriptor; or the whole path, and None."""
        *parents, last = name.split("/")
        if not _BY_DESCRIPTOR:
            yield self._checked(parents, last, make=make), None
            return
        descriptor = os.open(self.path, _DIRECTORY)
        try:
            for parent in parents:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(parent, 0o700, dir_fd=descriptor)
                below = os.open(parent, _DIRECTORY, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = below
            yield last, descriptor
        finally:
            os.close(descriptor)

    def _checked(self, parents: list[str], last: str, *, make: bool) -> str:
        path = self.path
        for parent in parents:
            path /= parent
            if make:
                path.mkdir(mode=0o700, exist_ok=True)
            if path.is_symlink() or os.path.realpath(path) != os.path.abspath(path):  # noqa: PTH100 - as text
                raise OSError(errno.ELOOP, "a link")
        return str(path / last)


@contextmanager
def locked(path: Path, problem: str, doing: str) -> Iterator[None]:
    """Nobody else has the lock meanwhile, in any process.

    Raises:
        SessionAccessError: Somebody has it for too long; ``doing`` says what for, ``problem`` what
            cannot be meanwhile.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path, timeout=LOCK_S)
    try:
        lock.acquire()
    except Timeout as exc:
        raise storage_error(problem, f"somebody else has been {doing} for long") from exc
    except OSError as exc:
        raise storage_error(problem, exc) from exc
    try:
        yield
    finally:
        lock.release()
