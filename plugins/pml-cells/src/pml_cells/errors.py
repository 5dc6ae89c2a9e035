"""What can be wrong with a session, its cells, or a notebook from elsewhere."""

from __future__ import annotations

from typing import Literal

Code = Literal["SESSION_NOT_FOUND", "CELL_NOT_FOUND", "STORAGE_ERROR"]
_MOST_SHOWN = 80


class SessionAccessError(Exception):
    """A session or a cell cannot be had. ``str()`` is what ``stderr`` says: ``Error: CODE - message``."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    def __str__(self) -> str:
        return f"Error: {self.code} - {self.message}"


class NotebookError(ValueError):
    """A notebook, or a change to one, is not what it must be. The message says what, where and what to do."""


def session_not_found(id: object) -> SessionAccessError:
    """There is no such session, or it is somebody else's, which must look the same."""
    return SessionAccessError(
        "SESSION_NOT_FOUND",
        f"there is no session {shown(id)} in the folder of this gateway; notebook_create makes one.",
    )


def cell_not_found(id: object, session_id: str, known: int) -> SessionAccessError:
    """The session has no such cell."""
    message = f"session {session_id} has {known} cells and none of them is {shown(id)}; notebook_get lists them."
    return SessionAccessError("CELL_NOT_FOUND", message)


def storage_error(what: str, why: OSError | str, remedy: str = "") -> SessionAccessError:
    """Files could not be read or written; ``what`` begins the sentence."""
    reason = (why.strerror or type(why).__name__) if isinstance(why, OSError) else why
    message = f"{what}: {reason}." + (f" {remedy}" if remedy else "")
    return SessionAccessError("STORAGE_ERROR", message)


def shown(value: object) -> str:
    """``value`` quoted, not longer than it takes to recognise it."""
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
