"""``pml notebook``: notebooks from the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments, RunOptions
from pml_kit.offers import report_change
from pml_kit.terminal import print_json

from .errors import NotebookError, SessionAccessError, shown

if TYPE_CHECKING:
    from pml_hookspecs import Services

    from .cell_execution import CellResult
    from .notebook import Cell, Notebook, Session
    from .sessions import Sessions

LOCAL = "local"
BY_HAND = RunOptions(trigger="manual")
"""The principal that started a gateway on stdio."""
_Verb = Callable[[argparse.Namespace, Any], Awaitable[int]]


def add(subcommands: Any) -> None:
    """Add the command and its verbs."""
    parser = subcommands.add_parser("notebook", help="make, run, import and export notebooks")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    create = _verb(verbs, "create", "make a notebook", _create)
    create.add_argument("title", metavar="TITLE")
    create.add_argument("--language", choices=("typescript", "javascript", "python"), default="typescript")
    imported = _verb(verbs, "import", "make one of a .src.md or .ipynb file, or of a folder of Srcbook's", _import)
    imported.add_argument("path", metavar="PATH", type=Path)
    for verb in (create, imported):
        verb.add_argument("--tools", action="append", default=[], metavar="PATTERN", help="tools that cells may call")
        verb.add_argument("--owner", default=LOCAL, metavar="PRINCIPAL", help=f"whose agents may use it ({LOCAL})")
    export = _verb(verbs, "export", "write one to a .src.md or .ipynb file", _export)
    _add_id(export)
    export.add_argument("path", metavar="PATH", type=Path, nargs="?", help="standard output if left out")
    export.add_argument("--format", choices=("src.md", "ipynb"), help="as the file's name says, if left out")
    export.add_argument("--force", action="store_true", help="overwrite the file")
    _verb(verbs, "list", "notebooks, the last changed first", _list).add_argument("--json", action="store_true")
    shown = _verb(verbs, "show", "a notebook's cells and their ids", _show)
    _add_id(shown)
    shown.add_argument("--json", action="store_true", help="with the cells' sources")
    _add_run(verbs)
    _add_id(_verb(verbs, "delete", "remove a notebook and all that is in its folder", _delete))


def _add_run(verbs: Any) -> None:
    run = _verb(verbs, "run", "run code cells, one after the other", _run)
    _add_id(run)
    run.add_argument("--cell", action="append", metavar="ID|FILE", help="only this one; more than once for more")
    run.add_argument("--timeout", type=float, metavar="MS", help="longest time of a cell, in milliseconds (30000)")
    run.add_argument("--keep-going", action="store_true", help="run the others, too, when one has failed")
    run.add_argument("--json", action="store_true", help="print results as JSON")
    run.add_argument(
        "--no-connect", dest="connect", action="store_false", help="start no servers, for cells that call no tools"
    )
    # The gateway's own option --connect takes this as its default: cells call tools.
    run.set_defaults(connect=True)


def _add_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="of the notebook, or its beginning; pml notebook list shows them")


def _verb(verbs: Any, name: str, help: str, function: _Verb) -> argparse.ArgumentParser:
    async def run_with(arguments: argparse.Namespace, services: Services) -> int:
        try:
            return await function(arguments, services)
        except (NotebookError, SessionAccessError) as exc:
            raise InvalidArguments(str(exc)) from exc

    parser: argparse.ArgumentParser = verbs.add_parser(name, help=help, description=f"{help.capitalize()}.")
    parser.set_defaults(run_with=run_with)
    return parser


def _named(arguments: argparse.Namespace, sessions: Sessions) -> str:
    """The id that ``arguments.id`` is, or is the beginning of."""
    asked = str(arguments.id)
    ids = [] if not asked else [id for id in sessions.ids() if id.startswith(asked)]
    if asked in ids or len(ids) == 1:
        return asked if asked in ids else ids[0]
    code = "SESSION_NOT_FOUND"
    if ids:
        raise InvalidArguments(f"{code} - more than one notebook begins with {shown(asked)}; give more of its id")
    raise InvalidArguments(f"{code} - there is no notebook {shown(asked)}; pml notebook list shows those there are")


def _sessions(services: Services) -> Sessions:
    from .sessions import sessions_of

    return sessions_of(services)


async def _create(arguments: argparse.Namespace, services: Services) -> int:
    from .notebook import new_notebook

    notebook = new_notebook(arguments.title, arguments.language)
    return await _made(services, "notebook.created", notebook, arguments)


async def _import(arguments: argparse.Namespace, services: Services) -> int:
    from .interchange import read

    notebook, notes = read(arguments.path)
    for note in notes:
        sys.stderr.write(f"pml notebook: {note}.\n")
    return await _made(services, "notebook.imported", notebook, arguments)


async def _made(services: Services, code: str, notebook: Notebook, arguments: argparse.Namespace) -> int:
    """Only the id, for scripts."""
    session = _sessions(services).create(notebook, arguments.owner, arguments.tools)
    about = {"notebook": session.id, "owner": arguments.owner}
    await report_change(services, "notebooks", code, about)
    sys.stdout.write(f"{session.id}\n")
    return 0


async def _export(arguments: argparse.Namespace, services: Services) -> int:
    from .interchange import format_of, written

    path: Path | None = arguments.path
    format = arguments.format or format_of(path)
    sessions = _sessions(services)
    text = written(sessions.get(_named(arguments, sessions), None).notebook, format)
    if path is None:
        sys.stdout.write(text)
        return 0
    try:
        with path.open("w" if arguments.force else "x", encoding="utf-8", newline="") as file:
            file.write(text)
    except FileExistsError as exc:
        raise NotebookError(f"{path} exists; --force overwrites it") from exc
    except OSError as exc:
        raise NotebookError(f"{path}: cannot be written: {exc.strerror or exc}") from exc
    return 0


async def _list(arguments: argparse.Namespace, services: Services) -> int:
    from . import output

    sessions = _sessions(services).all()
    if arguments.json:
        print_json([output.summary(session) for session in sessions])
    elif sessions:
        output.print_sessions(sessions)
    else:
        sys.stdout.write("There are no notebooks yet; pml notebook create TITLE makes one.\n")
    return 0


async def _show(arguments: argparse.Namespace, services: Services) -> int:
    from . import output
    from .tools import plain

    sessions = _sessions(services)
    session = sessions.get(_named(arguments, sessions), None)
    if arguments.json:
        print_json(plain(session))
    else:
        output.print_session(session)
        output.print_packages(sessions.root)
    return 0


async def _delete(arguments: argparse.Namespace, services: Services) -> int:
    sessions = _sessions(services)
    id = _named(arguments, sessions)
    # First, because somebody who deletes might end the command before it is through.
    await report_change(services, "notebooks", "notebook.deleted", {"notebook": id})
    sessions.delete(id, None)
    return 0


async def _run(arguments: argparse.Namespace, services: Services) -> int:
    from . import output
    from .cell_execution import execute

    sessions = _sessions(services)
    session = sessions.get(_named(arguments, sessions), None)
    cells = _chosen(session, arguments.cell)
    most_ms = (services.settings or _defaults()).max_timeout_s * 1000
    ran: list[tuple[Cell, CellResult]] = []
    with output.progress(session.notebook.title, len(cells), shown=not arguments.json) as progress:
        for cell in cells:
            progress.begins(cell)
            executed = await execute(
                sessions,
                lambda task: services.run(task, _caller(), BY_HAND),
                session_id=session.id,
                cell_id=cell.id,
                who=None,
                timeout_ms=arguments.timeout,
                most_ms=most_ms,
                log=services.log,
            )
            ran.append((cell, executed))
            progress.ended(cell, executed)
            if executed.exit_code and not arguments.keep_going:
                break
    if arguments.json:
        print_json([{"cellId": cell.id, "filename": cell.filename, **executed.plain()} for cell, executed in ran])
    else:
        output.print_results(cells, ran)
    return 1 if any(executed.exit_code for _, executed in ran) else 0


def _defaults() -> Any:
    from .settings import Settings

    return Settings()


def _caller() -> Any:
    from pml_hookspecs import Session as Caller

    return Caller(key=f"notebook/{LOCAL}", principal=LOCAL, client="pml notebook")


def _chosen(session: Session, names: list[str] | None) -> list[Cell]:
    """Code cells in order: all, or those that are named."""
    code = [cell for cell in session.notebook.cells if cell.kind == "code"]
    known = {name for cell in code for name in (cell.id, cell.filename)}
    if unknown := [name for name in names or () if name not in known]:
        files = ", ".join(cell.filename for cell in code) or "none"
        raise NotebookError(f"session {session.id} has no code cell {unknown[0]!r}; it has {files}")
    if not code:
        raise NotebookError(f"session {session.id} has no code cells, so there is nothing to run")
    return code if not names else [cell for cell in code if cell.id in names or cell.filename in names]
