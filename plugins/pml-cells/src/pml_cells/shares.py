"""What each principal has: its sessions, and how much is in their folders. Everything here blocks.

Kept in files beside the records, one for each session in a folder for each owner, so that nobody has to read all
records or look through all folders to know it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from pml_hookspecs import FolderSize

from .files import locked

FOLDER = "owners"
NOTHING = FolderSize(0, 0)


class Shares:
    """Those of all principals whose sessions have their records in one folder."""

    def __init__(self, records: Path, known: Callable[[], Iterable[tuple[str, str, FolderSize]]]) -> None:
        """Take the folder of the records.

        Args:
            records: The folder.
            known: Owner, id and size of every session; asked once, of sessions from before this was kept.
        """
        self._records, self._known = records, known
        self._folder = records / FOLDER

    def making(self) -> AbstractContextManager[None]:
        """Nobody else makes a session meanwhile.

        Raises:
            SessionAccessError: Somebody does for too long.
        """
        return locked(self._records / "making.lock", "a new session cannot be made", "making one")

    def sessions(self, owner: str) -> int:
        """How many sessions a principal has."""
        return sum(1 for _ in self._of(owner))

    def others(self, owner: str, id: str) -> FolderSize:
        """What is in the folders of all sessions of a principal but this one."""
        sizes = [_read(path) for path in self._of(owner) if path.name != id]
        return FolderSize(sum(size.bytes for size in sizes), sum(size.files for size in sizes))

    def note(self, owner: str, id: str, size: FolderSize) -> None:
        """Keep how much is in the folder of a session.

        Raises:
            OSError: It cannot be written.
        """
        self._keep(self._place(owner), id, size)

    def forget(self, owner: str, id: str) -> None:
        """The session is gone."""
        (self._place(owner) / id).unlink(missing_ok=True)

    def _of(self, owner: str) -> Iterator[Path]:
        with suppress(FileNotFoundError):
            yield from self._place(owner).iterdir()

    def _place(self, owner: str) -> Path:
        if not self._folder.is_dir():
            self._begin()
        return self._folder / _name(owner)

    def _begin(self) -> None:
        found = list(self._known())
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for owner, id, size in found:
            self._keep(self._folder / _name(owner), id, size)

    @staticmethod
    def _keep(place: Path, id: str, size: FolderSize) -> None:
        place.mkdir(mode=0o700, exist_ok=True)
        (place / id).write_text(f"{size.bytes} {size.files}")


def _name(owner: str) -> str:
    """Any text as the name of a folder."""
    return hashlib.sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _read(path: Path) -> FolderSize:
    """Nothing for one that is just being written, or gone."""
    try:
        size_bytes, files = path.read_text(encoding="utf-8").split()
        return FolderSize(int(size_bytes), int(files))
    except (OSError, ValueError):
        return NOTHING
