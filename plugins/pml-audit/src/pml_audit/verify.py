"""The reading end: are all rows there, and as they were written?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from .files import Files, Head
from .rows import START, InvalidRowError, Tip, read, tip_of

if TYPE_CHECKING:
    from io import BufferedReader


@dataclass(frozen=True, slots=True)
class ChainBreak:
    """The first row that is not as it was written."""

    file: str
    line: int
    """From 1; one more than there are for what is missing at the end."""
    problem: str


@dataclass(slots=True)
class Report:
    """The result of a verification."""

    rows: int = 0
    files: int = 0
    tip: Tip = START
    broken: ChainBreak | None = None
    notes: list[str] = field(default_factory=list)
    """What is no tampering."""

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        broken = None if self.broken is None else asdict(self.broken)
        last = self.tip._asdict()
        return {
            "ok": self.broken is None,
            "rows": self.rows,
            "files": self.files,
            "last": last,
            "first_broken": broken,
            "notes": self.notes,
        }


class Snapshot:
    """The files as they are at one moment, while others go on writing."""

    def __init__(self, files: Files) -> None:
        self.head: Head | None = None
        self._open: list[tuple[Path, BufferedReader, int]] = []
        self.files = files

    def __enter__(self) -> Self:
        if not self.files.folder.is_dir():
            return self
        with self.files.locked(shared=True):
            self.head = self.files.read_head()
            for path in self.files.all():
                opened = path.open("rb")
                self._open.append((path, opened, path.stat().st_size))
        return self

    def __exit__(self, *exc: object) -> None:
        for _, opened, _ in self._open:
            opened.close()

    @property
    def count(self) -> int:
        """How many files."""
        return len(self._open)

    @property
    def last(self) -> Path | None:
        """The file that is being written; None without files."""
        return self._open[-1][0] if self._open else None

    def lines(self, *, newest_only: bool = False) -> Iterator[tuple[Path, int, bytes]]:
        """File, number from 1, and line with its line feed, if it has one; of all files, or of the newest."""
        return self._lines(self._open[-1:] if newest_only else self._open)

    def lines_around(self, n: int) -> Iterator[tuple[Path, int, bytes]]:
        """The same of the files in which row ``n`` can be: the full one, and the one that is being written."""
        full = [each for each in self._open if each[0] != self.files.current]
        before = [each for each in full if int(each[0].stem.removeprefix("audit-")) <= n]
        return self._lines([*before[-1:], *(each for each in self._open if each not in full)])

    def rows(self, lines: Iterator[tuple[Path, int, bytes]] | None = None) -> Iterator[dict[str, Any]]:
        """What ``lines`` hold, all of them unless given; what is not as it was written is left out."""
        for _, _, line in self.lines() if lines is None else lines:
            with suppress(InvalidRowError):
                yield read(line.removesuffix(b"\n"))

    def _lines(self, files: Sequence[tuple[Path, BufferedReader, int]]) -> Iterator[tuple[Path, int, bytes]]:
        for path, opened, size in files:
            opened.seek(0)
            left = size
            for number, line in enumerate(opened, 1):
                if left <= 0:
                    break
                yield path, number, line[:left]
                left -= len(line)


def verify(folder: Path, kept: Sequence[tuple[str, Tip]] = ()) -> Report:
    """Look at every row.

    Args:
        folder: Of the audit.
        kept: How far the rows went when that was noted elsewhere, each with where.
    """
    files = Files(folder)
    with Snapshot(files) as snapshot:
        known = list(kept)
        if snapshot.head is not None:
            known.append((f"{folder / 'audit.head'}", snapshot.head.tip))
        report = Report(files=snapshot.count)
        place = _walk(snapshot, report, _by_number(known))
        if report.broken is None:
            report.broken = _missing(report, known, place)
        if report.rows and snapshot.head is None and report.broken is None:
            report.broken = ChainBreak(
                str(place[0]), place[1], "audit.head is missing: rows after this one may be, too"
            )
    return report


def _by_number(known: Sequence[tuple[str, Tip]]) -> dict[int, list[tuple[str, str]]]:
    found: dict[int, list[tuple[str, str]]] = {}
    for where, tip in known:
        found.setdefault(tip.n, []).append((where, tip.hash))
    return found


def _walk(snapshot: Snapshot, report: Report, known: dict[int, list[tuple[str, str]]]) -> tuple[Path, int]:
    """Check row by row, up to the first that is broken; where the next would be."""
    place = (snapshot.files.current, 1)
    for path, number, line in snapshot.lines():
        place = (path, number + 1)
        if not line.endswith(b"\n") and path == snapshot.last:
            report.notes.append(
                f"{path}, line {number}: half a row, as a killed gateway leaves it; the next start cuts it off"
            )
            return path, number
        try:
            row = read(line.removesuffix(b"\n"))
            _check_order(row, report.tip)
        except InvalidRowError as exc:
            report.broken = ChainBreak(str(path), number, str(exc))
            return place
        for where, hash in known.get(row["n"], ()):
            if hash != row["hash"]:
                problem = f"row {row['n']} is another than the one that {where} knows: all was written anew"
                report.broken = ChainBreak(str(path), number, problem)
                return place
        report.rows, report.tip = report.rows + 1, tip_of(row)
        _note(report, row, path, number)
    return place


def _check_order(row: dict[str, Any], tip: Tip) -> None:
    number = row["n"]
    if number > tip.n + 1:
        between = f"row {tip.n + 1} is" if number == tip.n + 2 else f"rows {tip.n + 1} to {number - 1} are"
        raise InvalidRowError(f"{between} missing before row {number}")
    if number < tip.n + 1:
        raise InvalidRowError(f"row {number} comes after row {tip.n}")
    if row["previous"] != tip.hash:
        raise InvalidRowError(f"row {number} does not follow the row {tip.n} that is there")


def _note(report: Report, row: dict[str, Any], path: Path, number: int) -> None:
    kind = row.get("kind")
    if kind == "audit.mended":
        report.notes.append(
            f"{path}, line {number}: half a row was cut off at {row.get('at')} ({row.get('bytes')} bytes)"
        )
    elif kind == "audit.new_store":
        report.notes.append(f"{path}, line {number}: a gateway began with another store at {row.get('at')}")
    elif kind in ("audit.broken", "audit.head_lost") and report.broken is None:
        report.broken = ChainBreak(str(path), number, f"a gateway noticed at {row.get('at')}: {row.get('why')}")


def _missing(report: Report, known: Sequence[tuple[str, Tip]], place: tuple[Path, int]) -> ChainBreak | None:
    where, tip = max(known, key=lambda k: k[1].n, default=("", START))
    if tip.n <= report.tip.n:
        return None
    gone = f"row {tip.n} is" if tip.n == report.tip.n + 1 else f"rows {report.tip.n + 1} to {tip.n} are"
    return ChainBreak(str(place[0]), place[1], f"{gone} missing at the end; {where} knows of them")
