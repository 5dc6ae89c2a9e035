"""The writing end: rows are added under a lock, after what the last writer left, whoever that was."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .files import Files, Head, read_all
from .rows import START, InvalidRowError, Tip, read, seal, tip_of

SHOWN_BYTES = 200
"""How much of a half row is kept."""
LONGEST_ROW_BYTES = 1 << 20
Note = dict[str, Any]


class Trail:
    """One audit. For one thread of each process; any number of processes."""

    def __init__(self, folder: Path, *, file_bytes: int, sync: bool) -> None:
        """``sync``: wait for the disk with each :meth:`append`."""
        self.files = Files(folder)
        self._file_bytes, self._sync = file_bytes, sync
        self.tip = START
        """The last row that this process knows of."""
        self.head_problem: OSError | None = None
        """Why the last :meth:`append` could not write the head. Its rows are there, and the next one writes it."""
        self._noticed: list[Note] = []

    def append(self, rows: Sequence[Mapping[str, Any]]) -> list[Note]:
        """Add rows; what was noticed about those before, which is in rows of its own now.

        Raises:
            OSError: They could not be written, and nothing was.
        """
        self.files.make()
        with self.files.locked():
            fd = self.files.open()
            try:
                return self._append(fd, rows)
            finally:
                os.close(fd)

    def _append(self, fd: int, rows: Sequence[Mapping[str, Any]]) -> list[Note]:
        size, head = os.fstat(fd).st_size, self.files.read_head()
        if head is None and not size and not self.files.full():
            # Before the first row: whoever is killed after that row must not seem to have had a head that is gone.
            head = Head(START, 0)
            self.files.write_head(head, sync=self._sync)
        if head is None or head.size != size or not 0 < head.tip.n >= self.tip.n:
            expected = max(self.tip, START if head is None else head.tip)
            tip, size = self._find_end(fd, size, expected, known=head is not None)
        else:
            tip = head.tip
        if size >= self._file_bytes:
            fd, size = self._begin_file(fd), 0
        lines, notes = [], self._noticed
        for row in (*notes, *rows):
            line, tip = seal(row, tip)
            lines.append(line)
        self._write(fd, b"".join(lines), size)
        self.tip, self._noticed = tip, []
        self._write_head(Head(tip, size + sum(map(len, lines))), new_file=not size)
        return notes

    def _write_head(self, head: Head, *, new_file: bool) -> None:
        # The rows are written: whoever was told now that they are not would write them again.
        self.head_problem = None
        try:
            self.files.write_head(head, sync=self._sync)
            if self._sync and new_file:
                self.files.sync_folder()
        except OSError as exc:
            self.head_problem = exc

    def _write(self, fd: int, data: bytes, size: int) -> None:
        written = 0
        try:
            while written < len(data):
                written += os.write(fd, data[written:])
            if self._sync:
                os.fsync(fd)
        except OSError:
            os.ftruncate(fd, size)  # none, so that all can be written again
            raise

    def _begin_file(self, fd: int) -> int:
        """Put the current file away; the new one takes its descriptor."""
        first = read_all(fd, LONGEST_ROW_BYTES).partition(b"\n")[0]
        try:
            number = read(first)["n"]
        except InvalidRowError:
            number = self.tip.n  # its place in the order matters, and that it is not lost
        self.files.put_away(number)
        new = self.files.open()
        os.dup2(new, fd, inheritable=False)
        os.close(new)
        return fd

    def _find_end(self, fd: int, size: int, expected: Tip, *, known: bool) -> tuple[Tip, int]:
        """The last row, and where it ends, when that is not where the last writer said; notes what is wrong."""
        notes = self._noticed
        data = read_all(fd, size)
        whole, half = data[: data.rfind(b"\n") + 1], data[data.rfind(b"\n") + 1 :]
        if half:
            # A writer was killed, or the power was cut: the row was never acknowledged.
            os.ftruncate(fd, len(whole))
            text = half[:SHOWN_BYTES].decode(errors="replace")
            notes.append(note("audit.mended", why="half a row at the end was cut off", bytes=len(half), text=text))
        rows = whole or self._last_full()
        end, fits = _end_of(rows, expected)
        if end == START and expected == START:
            notes.append(note("audit.began", trail=secrets.token_hex(16)))
        elif not fits:
            was, found = expected._asdict(), end._asdict()
            # Where nothing is left, this is the first row, and that has the id.
            id = {} if rows else {"trail": secrets.token_hex(16)}
            why = "rows are missing or were changed"
            notes.append(note("audit.broken", why=why, expected=was, found=found, **id))
            end = max(end, expected)
        elif not known:
            notes.append(note("audit.head_lost", why="audit.head is missing", found=end._asdict()))
        return end, len(whole)

    def _last_full(self) -> bytes:
        full = self.files.full()
        return full[-1].read_bytes() if full else b""


def _end_of(rows: bytes, expected: Tip) -> tuple[Tip, bool]:
    """The last row, and whether the rows go on from ``expected``."""
    end, fits = START, expected == START
    for line in rows.split(b"\n")[:-1]:
        try:
            row = read(line)
        except InvalidRowError:
            return end, False
        if end not in (START, Tip(row["n"] - 1, row["previous"])):
            return end, False
        fits = fits or expected in (tip_of(row), Tip(row["n"] - 1, row["previous"]))
        end = tip_of(row)
    return end, fits


def note(kind: str, **about: Any) -> Note:
    """A row about the audit itself."""
    return {"kind": kind, "at": datetime.now(UTC).isoformat(), **about}
