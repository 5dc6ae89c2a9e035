"""The session accessor: sessions as real folders. Everything here blocks."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pml_hookspecs import FolderSize, replace
from pml_kit.system.folders import size_of

from . import records
from .errors import NotebookError, SessionAccessError, cell_not_found, session_not_found, storage_error
from .files import Folder, locked
from .notebook import Cell, Notebook, Session, check, random_id
from .settings import Settings
from .shares import Shares
from .srcmd import encode

if TYPE_CHECKING:
    from pml_hookspecs import Services

RECORDS = ".pml"
"""Folder of the records, beside those of the sessions: no session can have this id."""
SOURCES, README, TSCONFIG = "src", "README.md", "tsconfig.json"
LOOKED_AT = 20
"""How many times as many files as a folder may hold are counted of one that holds more."""
_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class Sessions:
    """Sessions below one folder, shared by all processes that name it.

    A session's folder has Srcbook's layout: ``README.md``, ``package.json``, ``tsconfig.json``, and code in ``src``.
    The files in ``src`` and ``package.json`` are the cells' sources, also when somebody edits them; ``README.md`` only
    shows what is kept in the record. Of other people's sessions nobody is told that they exist.
    """

    def __init__(self, folder: Path, limits: Settings | None = None) -> None:
        """Take a folder, which is made when the first session is."""
        self.root = Path(os.path.realpath(folder))
        self._limits = limits or Settings()
        self._shares = Shares(self._records, self._known)

    def create(self, notebook: Notebook, owner: str, tools: Sequence[str] = ()) -> Session:
        """Make a folder for ``notebook``.

        Raises:
            NotebookError: The notebook is not what it must be, or there are too many.
            SessionAccessError: ``STORAGE_ERROR``.
        """
        now = _now()
        made = Session(
            id=random_id(), owner=owner, notebook=notebook, tools=tuple(tools), created_at=now, changed_at=now
        )
        self._check(made)
        try:
            self._records.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            raise storage_error("a new session cannot be saved", exc) from exc
        with self._shares.making():
            self._check_number(owner)
            self._check_room(made)
            folder = self._folder(made.id)
            try:
                folder.make()
                self._save(None, made)
                self.measure(made)
            except OSError as exc:
                shutil.rmtree(folder.path, ignore_errors=True)
                raise storage_error("a new session cannot be saved", exc) from exc
        return made

    def _check_number(self, owner: str) -> None:
        most = self._limits.max_principal_sessions
        if self._shares.sessions(owner) >= most:
            raise NotebookError(
                f"you have {most} notebooks, and nobody may have more ([plugins.cells] max_principal_sessions). Use "
                "one that you have (cell_update changes its cells), or have the operator remove some (pml notebook "
                "delete)"
            )
        if len(self.ids()) >= self._limits.max_sessions:
            raise NotebookError(
                f"there are {self._limits.max_sessions} notebooks of all principals together, and there may be no more "
                "([plugins.cells] max_sessions). Use one that you have, or have the operator remove some (pml notebook "
                "delete)"
            )

    def get(self, id: object, who: str | None) -> Session:
        """A session with the content of its files.

        Args:
            id: Its id; anything else finds nothing.
            who: The principal that wants it; None for the operator, who sees all.

        Raises:
            SessionAccessError: It cannot be had.
        """
        with self._locked(id, who) as session:
            return session

    def cell(self, id: object, cell_id: object, who: str | None) -> tuple[Session, Cell]:
        """A session and one of its cells.

        Raises:
            SessionAccessError: One of them cannot be had.
        """
        session = self.get(id, who)
        cell = find_cell(session, cell_id)
        if cell.problem:
            raise SessionAccessError("STORAGE_ERROR", cell.problem)
        return session, cell

    def change(self, id: object, who: str | None, edit: Callable[[Session], Session]) -> Session:
        """Change a session while nobody else does.

        Raises:
            SessionAccessError: It cannot be had, or not be saved.
            NotebookError: ``edit`` raises it, or what it gives back is not what it must be.
        """
        with self._locked(id, who) as before:
            after = replace(edit(before), changed_at=_now())
            self._check(after)
            self._check_room(after)
            try:
                self._save(before, after)
                self.measure(after)
            except OSError as exc:
                raise storage_error(f"session {before.id} cannot be saved", exc) from exc
            return after

    def stage(self, id: object, who: str | None) -> Path:
        """The folder of a session, with a copy of each code cell at its top: there programs start and import.

        Raises:
            SessionAccessError: It cannot be had, or not be written.
        """
        with self._locked(id, who) as session:
            folder = self._folder(session.id)
            for cell in session.notebook.cells:
                if cell.kind == "code" and not cell.problem:
                    _put(folder, cell.filename, cell.text.encode(), session.id)
            return folder.path

    def room(self, session: Session) -> FolderSize:
        """What the folder of a session may hold, now that its owner's others hold what they do."""
        return self._limits.room(self._shares.others(session.owner, session.id))

    def measure(self, session: Session) -> FolderSize:
        """How much is in the folder of a session, which counts for its owner from now on.

        Raises:
            OSError: It cannot be kept.
        """
        size = self._size(session.id)
        if self._record(session.id).is_file():  # nobody has removed it meanwhile
            self._shares.note(session.owner, session.id, size)
        return size

    def _size(self, id: str) -> FolderSize:
        return size_of(str(self._folder(id).path), LOOKED_AT * self._limits.max_notebook_files)

    def _known(self) -> Iterator[tuple[str, str, FolderSize]]:
        for session in self.all():
            yield session.owner, session.id, self._size(session.id)

    def all(self) -> Sequence[Session]:
        """Every session that can be read, the last changed first; for the operator."""
        found = []
        for path in self._records.glob("*.json"):
            with suppress(SessionAccessError):
                found.append(self._load(path.stem))
        return sorted(found, key=lambda session: (session.changed_at, session.id), reverse=True)

    def ids(self) -> Sequence[str]:
        """The ids of all sessions, those that cannot be read included; for the operator."""
        return sorted(path.stem for path in self._records.glob("*.json"))

    def delete(self, id: object, who: str | None) -> None:
        """Take a session away with all that is in its folder.

        Raises:
            SessionAccessError: It cannot be had, or not be removed.
        """
        with self._locked(id, who, files=False) as session:
            try:
                if (folder := self._folder(session.id)).exists():
                    shutil.rmtree(folder.path)
                self._record(session.id).unlink()
                self._shares.forget(session.owner, session.id)
            except OSError as exc:
                raise storage_error(f"session {session.id} cannot be removed", exc) from exc
        self._record(session.id).with_suffix(".lock").unlink(missing_ok=True)

    @property
    def _records(self) -> Path:
        return self.root / RECORDS

    def _record(self, id: str) -> Path:
        return self._records / f"{id}.json"

    def _folder(self, id: str) -> Folder:
        return Folder(self.root / id)

    @contextmanager
    def _locked(self, id: object, who: str | None, *, files: bool = True) -> Iterator[Session]:
        """The session, which nobody else changes meanwhile."""
        if not isinstance(id, str) or _ID.fullmatch(id) is None or not self._record(id).is_file():
            raise session_not_found(id)
        # Who may not have it must not learn from a wait that it is there.
        self._load(id, who)
        with locked(self._record(id).with_suffix(".lock"), f"session {id} cannot be had", "changing it"):
            session = self._load(id, who)
            yield self._with_files(session) if files else session

    def _load(self, id: str, who: str | None = None) -> Session:
        try:
            session = records.from_json(self._record(id).read_bytes())
        except FileNotFoundError as exc:
            raise session_not_found(id) from exc
        except OSError as exc:
            raise storage_error(f"the record of session {id} cannot be read", exc) from exc
        except ValueError as exc:
            raise storage_error(f"the record of session {id} cannot be read", str(exc)) from exc
        if who is not None and session.owner != who:
            raise session_not_found(id)
        return session

    def _with_files(self, session: Session) -> Session:
        folder = self._folder(session.id)
        if not folder.exists():
            raise storage_error(f"session {session.id} has no folder any more", "somebody has removed it")
        cells = tuple(self._with_file(folder, cell) if cell.filename else cell for cell in session.notebook.cells)
        return replace(session, notebook=replace(session.notebook, cells=cells))

    def _with_file(self, folder: Folder, cell: Cell) -> Cell:
        place = place_of(cell)
        try:
            return replace(cell, text=folder.read(place, self._limits.max_cell_bytes).decode())
        except OSError as exc:
            reason = exc.strerror or type(exc).__name__
        except UnicodeDecodeError:
            reason = "not UTF-8"
        return replace(cell, problem=f"{place} cannot be read: {reason}. Give the cell a new source with cell_update.")

    def _save(self, before: Session | None, after: Session) -> None:
        """Write what has changed, so that whoever is interrupted leaves a session that can be read."""
        folder = self._folder(after.id)
        known = {} if before is None else {cell.filename: cell for cell in before.notebook.cells if cell.filename}
        names = set()
        for cell in after.notebook.cells:
            names.add(cell.filename)
            if cell.filename and cell.problem == "" and known.get(cell.filename) != cell:
                folder.write(place_of(cell), cell.text.encode())
        if before is None and after.notebook.tsconfig:
            folder.write(TSCONFIG, after.notebook.tsconfig.encode())
        folder.write(README, encode(after.notebook, inline=False).encode())
        Folder(self._records).write(f"{after.id}.json", records.to_json(after))
        for name, cell in known.items():
            if name not in names:
                folder.remove(place_of(cell))
                folder.remove(name)

    def _check(self, session: Session) -> None:
        check(session.notebook)
        limits, cells = self._limits, session.notebook.cells
        if len(cells) > limits.max_cells:
            raise NotebookError(f"{len(cells)} cells are too many; a notebook has at most {limits.max_cells}")
        for cell in cells:
            try:
                size = len(cell.text.encode())
            except UnicodeEncodeError as exc:
                raise NotebookError(f"the text of {name_of(cell)} is no Unicode text: {exc.reason}") from exc
            if size > limits.max_cell_bytes:
                raise NotebookError(
                    f"{name_of(cell)} has {size} bytes; a cell has at most {limits.max_cell_bytes} "
                    "([plugins.cells] max_cell_bytes). Split it, or keep data in a file of its own"
                )

    def _check_room(self, session: Session) -> None:
        """Whether what the cells say fits in, with the copies that are made of code to be run."""
        cells = session.notebook.cells
        texts = sum(len(cell.text.encode()) * (2 if cell.kind == "code" else 1) for cell in cells)
        if texts > (room := self.room(session).bytes):
            raise NotebookError(
                f"the cells take {texts} bytes, and there is room for {room}: a notebook may hold "
                f"{self._limits.max_notebook_bytes} bytes ([plugins.cells] max_notebook_bytes), and all that are yours "
                f"together {self._limits.max_principal_bytes} (max_principal_bytes)"
            )


def sessions_of(services: Services) -> Sessions:
    """The sessions that the settings name."""
    settings: Settings = services.settings or Settings()
    home = Path(os.environ.get("PML_HOME") or Path.home() / ".pml")
    return Sessions(Path(settings.folder).expanduser() if settings.folder else home / "notebooks", settings)


def find_cell(session: Session, id: object) -> Cell:
    """The cell with this id.

    Raises:
        SessionAccessError: ``CELL_NOT_FOUND``.
    """
    for cell in session.notebook.cells:
        if cell.id == id:
            return cell
    raise cell_not_found(id, session.id, len(session.notebook.cells))


def place_of(cell: Cell) -> str:
    """Where the source of a cell is, seen from the session's folder."""
    return f"{SOURCES}/{cell.filename}" if cell.kind == "code" else cell.filename


def name_of(cell: Cell) -> str:
    """A cell in words."""
    return cell.filename or f"the {cell.kind} cell {cell.id}"


def _put(folder: Folder, name: str, data: bytes, session_id: str) -> None:
    """Write a file unless it is there already, whatever code has put in its place."""
    try:
        if folder.read(name, len(data)) == data:
            return
    except OSError:
        pass
    try:
        folder.write(name, data)
    except OSError as exc:
        raise storage_error(f"{name} cannot be put into the folder of session {session_id}", exc) from exc


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
