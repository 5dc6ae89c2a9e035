"""What the bridge has to know of a language and the program that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from .child import Command
from .outcomes import UncaughtError


class Dialect(Protocol):
    """One program that runs code, such as Deno."""

    @property
    def suffixes(self) -> Mapping[str, str]:
        """Languages, and how names of their files end; ``""`` for sources that are not to be put into a file."""
        ...

    def command(self, folder: str | None, *, writable: bool = True) -> Command:
        """How to start it.

        Args:
            folder: The one directory that the code may read and write; None for none.
            writable: False for one that it may read, and remove files from, and no more.
        """
        ...

    def raised(self, error: Mapping[str, Any], source: str) -> UncaughtError:
        """What the frame of an error that the code did not catch tells: ``name``, ``message``, ``stack``, all texts."""
        ...

    def tidy(self, printed: str) -> str:
        """What the program printed of errors, with places as the author of the code knows them."""
        ...

    def out_of_memory(self, printed: str) -> bool:
        """Whether what the program printed before it died says that memory ran out."""
        ...

    def wants_memory(self, error: UncaughtError) -> bool:
        """Whether ``error`` says that memory ran out."""
        ...
