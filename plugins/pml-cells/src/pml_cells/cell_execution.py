"""Runs a cell: what ``cell_execute`` and ``pml notebook run`` have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from pml_hookspecs import CodeRun, Outcome, Status

from .errors import SessionAccessError, shown
from .notebook import SPOKEN, detect_language
from .sessions import name_of

if TYPE_CHECKING:
    from pml_hookspecs import FolderSize

    from .notebook import Session
    from .sessions import Sessions

TIMEOUT_MS = 30_000
"""Longest time of a cell that is not given any [ms]."""
TIMED_OUT_EXIT = 124
"""Exit code of a cell that took too long, as ``timeout`` of the coreutils has it."""
LIMITS = (
    "[plugins.cells] max_notebook_bytes and max_notebook_files; for all notebooks of one principal max_principal_bytes "
    "and max_principal_files"
)
_FOLDER_FULL = "code.folder_full"
_MISSING = "executor.missing"
_EXITED = "code.exited"
_BY_CODE = "code."
"""How failures begin that are the code's own doing."""


class CellResult(NamedTuple):
    """The result of running a cell."""

    stdout: str
    stderr: str
    exit_code: int
    execution_time_ms: int
    is_error: bool = False
    """Whether it could not be run at all."""

    def plain(self) -> dict[str, Any]:
        """The result as clients get it."""
        return {
            "stdout": self.stdout,
            "stderr": self.stderr,
            "exitCode": self.exit_code,
            "executionTime": self.execution_time_ms,
        }


Dispatch = Callable[[CodeRun], Awaitable[Outcome]]


async def execute(
    sessions: Sessions,
    dispatch: Dispatch,
    *,
    session_id: object,
    cell_id: object,
    who: str | None,
    timeout_ms: object = None,
    most_ms: float,
    log: Any,
) -> CellResult:
    """Run a cell in its session's folder. Never raises, but when it is cancelled.

    Args:
        sessions: Where the session is.
        dispatch: Runs the code.
        session_id: Of the session.
        cell_id: Of the cell.
        who: The principal that wants it run; None for the operator.
        timeout_ms: Longest time; None for 30 s [ms].
        most_ms: The longest that may be asked for [ms].
        log: Told of what nobody expected.
    """
    try:
        for name, value in (("sessionId", session_id), ("cellId", cell_id)):
            if not isinstance(value, str):
                raise _RefusedError(f"{name} must be a string, not {shown(value)}")
        limit_ms = _limit_ms(timeout_ms, most_ms)
        session, task = await asyncio.to_thread(_task, sessions, session_id, cell_id, who, limit_ms / 1000)
        full = await asyncio.to_thread(_full, sessions, session, task.folder_limit)
        try:
            return result_of(await dispatch(task), task.language, full)
        finally:
            with suppress(OSError):  # what the cell came to is not lost for that; the next run measures it again
                await asyncio.to_thread(sessions.measure, session)
    except SessionAccessError as exc:
        return CellResult("", str(exc), 1, 0, is_error=True)
    except _RefusedError as exc:
        return _unexpected(str(exc))
    except Exception as exc:
        log.exception("a cell could not be run")
        return _unexpected(str(exc) or type(exc).__name__)


class _RefusedError(Exception):
    """The cell cannot be run as it was asked for."""


def _limit_ms(asked: Any, most_ms: float) -> float:
    if asked is None:
        return TIMEOUT_MS
    number = isinstance(asked, (int, float)) and not isinstance(asked, bool)
    if not number or not 0 < asked <= most_ms:
        raise _RefusedError(
            f"timeout must be a number of milliseconds, above 0 and up to {most_ms:.0f}, not {shown(asked)}"
        )
    return float(asked)


def _task(
    sessions: Sessions, session_id: object, cell_id: object, who: str | None, timeout_s: float
) -> tuple[Session, CodeRun]:
    session, cell = sessions.cell(session_id, cell_id, who)
    if cell.kind != "code":
        raise _RefusedError(f"{name_of(cell)} is no code; only code cells can be executed")
    folder = sessions.stage(session.id, who)
    task = CodeRun(
        id=cell.id,
        language=detect_language(cell.language, cell.filename),
        source=cell.text,
        program=True,
        folder=str(folder),
        folder_limit=sessions.room(session),
        timeout_s=timeout_s,
        tools=session.tools,
    )
    return session, task


def _full(sessions: Sessions, session: Session, room: FolderSize | None) -> str:
    """What to say of a folder that the cell cannot write into; ``""`` when it can."""
    held = sessions.measure(session)
    if room is None or not held.exceeds(room):
        return ""
    return (
        f"The notebook's folder holds {held.bytes} bytes in {held.files} files, and there is room for {room.bytes} "
        f"bytes in {room.files} ({LIMITS}), so that the cell could read and remove files and not write."
    )


def result_of(outcome: Outcome, language: str, full: str = "") -> CellResult:
    """What the end of a program means to whoever asked for its cell.

    Args:
        outcome: The end.
        language: Of the cell.
        full: What to say of a folder that could not be written into; ``""`` for one that could.
    """
    streams: Mapping[str, Any] = outcome.output if isinstance(outcome.output, Mapping) else {}
    out, said = str(streams.get("stdout", "")), str(streams.get("stderr", ""))
    failure = outcome.failure
    said = _with(said, full) if full else said
    if failure is None:
        if outcome.status is Status.SIMULATED:
            said = "This was a dry run: the cell was not executed."
        return CellResult(out, said, _exit_code(streams, 0), outcome.duration_ms)
    if outcome.status is Status.TIMED_OUT:
        return CellResult(out, _with(said, failure.message), TIMED_OUT_EXIT, outcome.duration_ms)
    if failure.code == _EXITED and streams:
        return CellResult(out, said, _exit_code(streams, 1) or 1, outcome.duration_ms)
    if failure.code.startswith(_BY_CODE):
        message = f"{failure.message} ({LIMITS})" if failure.code == _FOLDER_FULL else failure.message
        return CellResult(out, _with(said, message), _exit_code(streams, 1) or 1, outcome.duration_ms)
    if failure.code == _MISSING:
        return _unexpected(f"the runtime for {SPOKEN.get(language, language)} is missing. {failure.message}")
    return _unexpected(failure.message)


def _exit_code(streams: Mapping[str, Any], default: int) -> int:
    code = streams.get("exit_code", default)
    return code if isinstance(code, int) else default


def _with(said: str, message: str) -> str:
    """``said`` with a last line about how it ended."""
    return f"{said}{'' if not said or said.endswith(chr(10)) else chr(10)}Error: {message}\n"


def _unexpected(message: str) -> CellResult:
    return CellResult("", f"Unexpected error: {message}", 1, 0, is_error=True)
