"""What a process engine has to know of the program that runs its code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from .child import Command
from .outcomes import UncaughtError


class Dialect:
    """One program that runs code. :meth:`make` says how to start it; the rest may stay as it is."""

    suffixes: ClassVar[Mapping[str, str]] = {}
    """How names of files with programs end, by language; for others there is no file of the source in their folder."""
    _usual: Command | None = None

    def make(self, folder: str | None, *, writable: bool) -> Command:
        """How to start it, with its jail.

        Args:
            folder: The one directory that the code may read and write; None for none.
            writable: False for one that it may read, and remove files from, and no more.
        """
        raise NotImplementedError

    def command(self, folder: str | None, *, writable: bool = True) -> Command:
        """As :meth:`make`; that without a folder is made once."""
        if folder is not None:
            return self.make(folder, writable=writable)
        self._usual = self._usual or self.make(None, writable=True)
        return self._usual

    def raised(self, error: Mapping[str, str], source: str) -> UncaughtError:
        """What the frame of an error that the code did not catch tells: ``name``, ``message`` and ``stack``.

        The stack is lines of ``function:line:column``, innermost first, unless overridden.
        """
        frames = [frame.rsplit(":", 2) for frame in error["stack"].splitlines()]
        return error_at([(where, int(line), int(column)) for where, line, column in frames], error)

    def tidy(self, printed: str) -> str:
        """What the program printed of errors, with places as the author of the code knows them."""
        return printed

    def out_of_memory(self, printed: str) -> bool:
        """Whether what the program printed before it died says that memory ran out: its last line, as in Python."""
        return printed.rstrip().rpartition("\n")[2].startswith("MemoryError")

    def wants_memory(self, error: UncaughtError) -> bool:
        """Whether ``error`` says that memory ran out."""
        return error.name == "MemoryError"


def error_at(places: list[tuple[str, int, int]], error: Mapping[str, Any]) -> UncaughtError:
    """An error with a name and a message, and where it was raised: function, line and column, innermost first."""
    return UncaughtError(
        name=error["name"],
        message=error["message"],
        line=places[0][1] if places else None,
        column=places[0][2] if places else None,
        stack=tuple(f"{where} (line {line}, column {column})" for where, line, column in places),
    )
