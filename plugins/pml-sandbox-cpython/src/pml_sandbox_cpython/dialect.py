"""What the bridge has to know of Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pml_sandbox.child import Command
from pml_sandbox.outcomes import UncaughtError

from .interpreter import Interpreter
from .jails import BOOT, Jails

ENVIRONMENT = {"LC_ALL": "C.UTF-8", "TZ": "UTC"}
"""All of it."""


class PythonDialect:
    """CPython, one process per run."""

    def __init__(self, interpreter: Interpreter, jail: Jails) -> None:
        """Take what to start, and what makes the jail for a folder."""
        # The bootstrap is told the source; a file of it in the folder would serve nobody.
        self.suffixes: Mapping[str, str] = {"python": ""}
        self._interpreter, self._jail = interpreter, jail
        self._usual: Command | None = None

    def command(self, folder: str | None, *, writable: bool = True) -> Command:
        """The interpreter with the bootstrap, in ``folder``."""
        if folder is not None:
            return self._command(folder, writable=writable)
        self._usual = self._usual or self._command(None, writable=True)
        return self._usual

    def _command(self, folder: str | None, *, writable: bool) -> Command:
        words = (*self._interpreter.words, str(BOOT), *(() if folder is None else (folder,)))
        jail = self._jail(folder, writable=writable)
        return Command(words=words, environment=ENVIRONMENT, folder=folder or "/", jail=jail)

    def raised(self, error: Mapping[str, Any], source: str) -> UncaughtError:
        """The stack is lines of ``function:line:column``, innermost first."""
        frames = [frame.rsplit(":", 2) for frame in str(error["stack"]).splitlines()]
        return UncaughtError(
            name=error["name"],
            message=error["message"],
            line=int(frames[0][1]) if frames else None,
            column=int(frames[0][2]) if frames else None,
            stack=tuple(f"{where} (line {line}, column {column})" for where, line, column in frames),
        )

    def tidy(self, printed: str) -> str:
        """As it is: the bootstrap shows nothing of itself."""
        return printed

    def out_of_memory(self, printed: str) -> bool:
        """The last line is that of a ``MemoryError``."""
        return printed.rstrip().rpartition("\n")[2].startswith("MemoryError")

    def wants_memory(self, error: UncaughtError) -> bool:
        """It is a ``MemoryError``."""
        return error.name == "MemoryError"
