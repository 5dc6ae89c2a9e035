"""The tools: ``cell_execute``, ``notebook_create``, ``cell_create``, ``cell_update``, ``notebook_get``."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from pml_hookspecs import InvalidArguments, MetaTool, ToolFailed

from . import definitions
from .arguments import checked
from .cell_execution import execute
from .errors import NotebookError, SessionAccessError
from .notebook import (
    Cell,
    Session,
    free_filename,
    language_of,
    new_code,
    new_markdown,
    new_notebook,
    new_title,
)
from .sessions import find_cell

if TYPE_CHECKING:
    from pml_hookspecs import Run
    from pml_hookspecs import Session as Asking

    from .sessions import Sessions

SYSTEM = "system"
"""The scope whose holders have everyone's sessions."""


def all_tools(sessions: Sessions, *, most_ms: float, log: Any, listed: bool) -> Sequence[MetaTool]:
    """Every tool, on the same sessions."""
    made: list[tuple[Mapping[str, Any], Any]] = [(definitions.CELL_EXECUTE, CellExecute(sessions, most_ms, log))]
    made += [(kind.definition, kind(sessions)) for kind in (NotebookCreate, CellCreate, CellUpdate, NotebookGet)]
    return [MetaTool(definition=definition, call=call, listed=listed) for definition, call in made]


def who_asks(session: Asking) -> str | None:
    """The principal whose sessions may be used; None for all."""
    return None if SYSTEM in session.scopes else session.principal


class CellExecute:
    """Answers calls of ``cell_execute``."""

    def __init__(self, sessions: Sessions, most_ms: float, log: Any) -> None:
        self._sessions, self._most_ms, self._log = sessions, most_ms, log

    async def __call__(self, arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
        """Run the cell as a child of this call.

        Returns:
            ``stdout``, ``stderr``, ``exitCode``, ``executionTime`` [ms], also when the code has failed.

        Raises:
            ToolFailed: The cell could not be run. Clients get the same four members, marked as an error.
        """
        executed = await execute(
            self._sessions,
            run.dispatch,
            session_id=arguments.get("sessionId"),
            cell_id=arguments.get("cellId"),
            who=who_asks(run.session),
            timeout_ms=arguments.get("timeout"),
            most_ms=self._most_ms,
            log=self._log,
        )
        if executed.is_error:
            raise ToolFailed(executed.stderr, executed.plain())
        return executed.plain()


class SessionTool(ABC):
    """A tool that looks at sessions or changes them."""

    definition: ClassVar[Mapping[str, Any]]

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def __call__(self, arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
        """Do it.

        Raises:
            InvalidArguments: Says everything that is wrong.
        """
        name = self.definition["name"]
        try:
            given = checked(self.definition, arguments)
            return await asyncio.to_thread(self.answer, given, run.session)
        except NotebookError as exc:
            raise InvalidArguments(f"{name}: {exc}.") from exc
        except SessionAccessError as exc:
            raise InvalidArguments(str(exc)) from exc

    @abstractmethod
    def answer(self, given: Mapping[str, Any], asking: Asking) -> Mapping[str, Any]:
        """Do it, blocking.

        Raises:
            NotebookError: The arguments ask for what cannot be.
            SessionAccessError: The session or cell cannot be had.
        """


class NotebookCreate(SessionTool):
    """Answers calls of ``notebook_create``."""

    definition = definitions.NOTEBOOK_CREATE

    def answer(self, given: Mapping[str, Any], asking: Asking) -> Mapping[str, Any]:
        notebook = new_notebook(given["title"], given["language"])
        return plain(self._sessions.create(notebook, asking.principal, given["tools"] or ()))


class NotebookGet(SessionTool):
    """Answers calls of ``notebook_get``."""

    definition = definitions.NOTEBOOK_GET

    def answer(self, given: Mapping[str, Any], asking: Asking) -> Mapping[str, Any]:
        return plain(self._sessions.get(given["sessionId"], who_asks(asking)))


class CellCreate(SessionTool):
    """Answers calls of ``cell_create``."""

    definition = definitions.CELL_CREATE

    def answer(self, given: Mapping[str, Any], asking: Asking) -> Mapping[str, Any]:
        made: list[Cell] = []

        def edit(session: Session) -> Session:
            cells = list(session.notebook.cells)
            index = len(cells) if given["index"] is None else given["index"]
            least = sum(cell.kind in ("title", "package.json") for cell in cells)
            if not least <= index <= len(cells):
                raise NotebookError(f"index must be from {least} to {len(cells)}, not {index}")
            made.append(_new_cell(session, given))
            cells.insert(index, made[0])
            return replace(session, notebook=replace(session.notebook, cells=tuple(cells)))

        session = self._sessions.change(given["sessionId"], who_asks(asking), edit)
        return {"sessionId": session.id, "cell": made[0].plain()}


class CellUpdate(SessionTool):
    """Answers calls of ``cell_update``."""

    definition = definitions.CELL_UPDATE

    def answer(self, given: Mapping[str, Any], asking: Asking) -> Mapping[str, Any]:
        made: list[Cell] = []

        def edit(session: Session) -> Session:
            before = find_cell(session, given["cellId"])
            made.append(_changed(before, given))
            cells = tuple(made[0] if cell is before else cell for cell in session.notebook.cells)
            return replace(session, notebook=replace(session.notebook, cells=cells))

        session = self._sessions.change(given["sessionId"], who_asks(asking), edit)
        return {"sessionId": session.id, "cell": made[0].plain()}


def plain(session: Session) -> Mapping[str, Any]:
    """A session as clients see it."""
    notebook = session.notebook
    return {
        "sessionId": session.id,
        "title": notebook.title,
        "language": notebook.language,
        "tools": list(session.tools),
        "cells": [cell.plain() for cell in notebook.cells],
    }


def _new_cell(session: Session, given: Mapping[str, Any]) -> Cell:
    source, text, filename, language = (given[name] for name in ("source", "text", "filename", "language"))
    if (source is None) == (text is None):
        raise NotebookError("give source for a code cell, or text for a Markdown cell")
    if source is None:
        if filename is not None or language is not None:
            raise NotebookError("a Markdown cell has no filename and no language; give source for a code cell")
        return new_markdown(text)
    if filename is None:
        taken = [cell.filename for cell in session.notebook.cells]
        filename = free_filename(language or session.notebook.language, taken)
    elif language is not None and language_of(filename) != language:
        raise NotebookError(f"the ending of {filename} means {language_of(filename)}, not {language}")
    return new_code(filename, source)


def _changed(cell: Cell, given: Mapping[str, Any]) -> Cell:
    source, text, filename = given["source"], given["text"], given["filename"]
    if source is None and text is None and filename is None:
        raise NotebookError("give what is to change: source, text or filename")
    if cell.kind in ("title", "markdown"):
        if source is not None or filename is not None or text is None:
            raise NotebookError(f"a {cell.kind} cell has a text and nothing else")
        return replace(new_title(text) if cell.kind == "title" else new_markdown(text), id=cell.id)
    if text is not None:
        raise NotebookError(f"{cell.filename} has a source and no text")
    if filename is not None:
        if cell.kind != "code":
            raise NotebookError("package.json cannot be renamed")
        cell = replace(cell, filename=filename, language=language_of(filename))
    if source is not None:
        return replace(cell, text=source, problem="")
    if cell.problem:
        raise NotebookError(cell.problem)
    return cell
