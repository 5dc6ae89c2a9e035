"""What ``pml notebook`` prints."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pml_kit.terminal import print_table, printable

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console
    from rich.progress import Progress

    from .cell_execution import CellResult
    from .notebook import Cell, Session

WIDEST = 60
"""Characters of a text in a table."""


def summary(session: Session) -> dict[str, Any]:
    """A session in a list."""
    return {
        "sessionId": session.id,
        "title": session.notebook.title,
        "language": session.notebook.language,
        "cells": len(session.notebook.cells),
        "tools": list(session.tools),
        "owner": session.owner,
        "createdAt": session.created_at,
        "changedAt": session.changed_at,
    }


def print_sessions(sessions: Sequence[Session]) -> None:
    """A table of sessions."""
    rows = [
        (
            session.id,
            session.notebook.title,
            session.notebook.language,
            str(len(session.notebook.cells)),
            session.owner,
            session.changed_at[:19],
        )
        for session in sessions
    ]
    print_table(("id", "title", "language", "cells", "owner", "changed at"), rows, whole=["id"])


def print_packages(folder: Path) -> None:
    """How packages are installed that cells of all notebooks in ``folder`` can import."""
    place = shlex.quote(printable(str(folder)))
    sys.stdout.write(f"packages for cells of all notebooks (Linux): npm install --prefix {place} NAME\n")


def print_session(session: Session) -> None:
    """A table of cells."""
    rows = [
        (str(number), cell.id, cell.kind, cell.filename or "-", _first_line(cell.problem or cell.text))
        for number, cell in enumerate(session.notebook.cells)
    ]
    print_table(("", "id", "type", "file", "begins with"), rows, whole=["id"])
    tools = ", ".join(session.tools) or "none"
    sys.stdout.write(f"language: {session.notebook.language}, tools: {printable(tools)}\n")


def print_results(cells: Sequence[Cell], ran: Sequence[tuple[Cell, CellResult]]) -> None:
    """A table of what came of each cell."""
    done = {cell.id: executed for cell, executed in ran}
    rows = []
    for cell in cells:
        executed = done.get(cell.id)
        if executed is None:
            rows.append((cell.filename, "-", "-", "not run"))
            continue
        said = executed.stderr if executed.exit_code else executed.stdout
        row = (cell.filename, str(executed.exit_code), f"{executed.execution_time_ms} ms", _last_line(said))
        rows.append(row)
    print_table(("cell", "exit", "time", "last line"), rows)


class CellProgress:
    """Tells of cells as they begin and end."""

    def __init__(self, console: Console | None, progress: Progress | None, title: str, total: int) -> None:
        self._console, self._progress = console, progress
        self._bar = None if progress is None else progress.add_task(printable(title), total=total)

    def begins(self, cell: Cell) -> None:
        """The next one."""
        if self._progress is not None and self._bar is not None:
            self._progress.update(self._bar, description=printable(cell.filename))

    def ended(self, cell: Cell, executed: CellResult) -> None:
        """What it printed."""
        if self._console is None or self._progress is None or self._bar is None:
            return
        self._progress.advance(self._bar)
        for text in (executed.stdout, executed.stderr):
            for line in text.splitlines():
                shown = printable(line, keep="\t")
                self._console.print(f"{cell.filename} | {shown}", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def progress(title: str, total: int, *, shown: bool) -> Iterator[CellProgress]:
    """A bar while cells run, where somebody watches it."""
    if not shown:
        yield CellProgress(None, None, title, total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield CellProgress(console, bar, title, total)


def _first_line(text: str) -> str:
    return _short(next((line for line in text.splitlines() if line.strip()), ""))


def _last_line(text: str) -> str:
    return _short(next((line for line in reversed(text.splitlines()) if line.strip()), ""))


def _short(line: str) -> str:
    return line if len(line) <= WIDEST else f"{line[: WIDEST - 1]}…"
