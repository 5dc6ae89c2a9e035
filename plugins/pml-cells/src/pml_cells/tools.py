"""The tools: ``cell_execute``, ``notebook_create``, ``cell_create``, ``cell_update``, ``notebook_get``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from pml_hookspecs import InvalidArguments, ToolFailed, replace
from pml_kit.mcp.arguments import checked

from . import definitions
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

Call: TypeAlias = "Callable[[Mapping[str, Any], Run], Awaitable[Any]]"
Answer: TypeAlias = "Callable[[Sessions, Mapping[str, Any], Asking], Mapping[str, Any]]"
SYSTEM = "system"
"""The scope whose holders have everyone's sessions."""


def calls_of(sessions: Sessions, *, most_ms: float, log: Any) -> Mapping[str, Call]:
    """What answers calls of every tool, by its name, on the same sessions."""
    answers = (
        (definitions.NOTEBOOK_CREATE, notebook_create),
        (definitions.CELL_CREATE, cell_create),
        (definitions.CELL_UPDATE, cell_update),
        (definitions.NOTEBOOK_GET, notebook_get),
    )
    found: dict[str, Call] = {definitions.CELL_EXECUTE["name"]: partial(cell_execute, sessions, most_ms, log)}
    return found | {about["name"]: partial(_called, sessions, about, answer) for about, answer in answers}


def who_asks(session: Asking) -> str | None:
    """The principal whose sessions may be used; None for all."""
    return None if SYSTEM in session.scopes else session.principal


async def cell_execute(
    sessions: Sessions, most_ms: float, log: Any, arguments: Mapping[str, Any], run: Run
) -> Mapping[str, Any]:
    """Run a cell as a child of this call.

    Returns:
        ``stdout``, ``stderr``, ``exitCode``, ``executionTime`` [ms], also when the code has failed.

    Raises:
        ToolFailed: The cell could not be run. Clients get the same four members, marked as an error.
    """
    executed = await execute(
        sessions,
        run.dispatch,
        session_id=arguments.get("sessionId"),
        cell_id=arguments.get("cellId"),
        who=who_asks(run.session),
        timeout_ms=arguments.get("timeout"),
        most_ms=most_ms,
        log=log,
    )
    if executed.is_error:
        raise ToolFailed(executed.stderr, executed.plain())
    return executed.plain()


async def _called(
    sessions: Sessions, definition: Mapping[str, Any], answer: Answer, arguments: Mapping[str, Any], run: Run
) -> Mapping[str, Any]:
    """Look at sessions or change them.

    Raises:
        InvalidArguments: Says everything that is wrong.
    """
    given = checked(definition, arguments)
    try:
        return await asyncio.to_thread(answer, sessions, given, run.session)
    except NotebookError as exc:
        raise InvalidArguments(f"{definition['name']}: {exc}.") from exc
    except SessionAccessError as exc:
        raise InvalidArguments(str(exc)) from exc


def notebook_create(sessions: Sessions, given: Mapping[str, Any], asking: Asking) -> Mapping[str, Any]:
    """Make a notebook with a folder. Blocks, as all below."""
    return plain(
        sessions.create(new_notebook(given["title"], given["language"]), asking.principal, given["tools"] or ())
    )


def notebook_get(sessions: Sessions, given: Mapping[str, Any], asking: Asking) -> Mapping[str, Any]:
    """A notebook and its cells."""
    return plain(sessions.get(given["sessionId"], who_asks(asking)))


def cell_create(sessions: Sessions, given: Mapping[str, Any], asking: Asking) -> Mapping[str, Any]:
    """Add a cell."""

    def added(session: Session) -> tuple[Cell, Sequence[Cell]]:
        cells = list(session.notebook.cells)
        index = len(cells) if given["index"] is None else given["index"]
        least = sum(cell.kind in ("title", "package.json") for cell in cells)
        if not least <= index <= len(cells):
            raise NotebookError(f"'index' must be from {least} to {len(cells)}, not {index}")
        made = _new_cell(session, given)
        return made, [*cells[:index], made, *cells[index:]]

    return _edited(sessions, given, asking, added)


def cell_update(sessions: Sessions, given: Mapping[str, Any], asking: Asking) -> Mapping[str, Any]:
    """Change a cell."""

    def changed(session: Session) -> tuple[Cell, Sequence[Cell]]:
        before = find_cell(session, given["cellId"])
        made = _changed(before, given)
        return made, [made if cell is before else cell for cell in session.notebook.cells]

    return _edited(sessions, given, asking, changed)


def _edited(
    sessions: Sessions,
    given: Mapping[str, Any],
    asking: Asking,
    edit: Callable[[Session], tuple[Cell, Sequence[Cell]]],
) -> Mapping[str, Any]:
    """What a client is told of a cell that is new or changed."""
    made: list[Cell] = []

    def change(session: Session) -> Session:
        cell, cells = edit(session)
        made.append(cell)
        return replace(session, notebook=replace(session.notebook, cells=tuple(cells)))

    session = sessions.change(given["sessionId"], who_asks(asking), change)
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
