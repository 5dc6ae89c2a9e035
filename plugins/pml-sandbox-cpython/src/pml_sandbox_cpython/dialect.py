"""How CPython is started, and what it may touch."""

from __future__ import annotations

from pathlib import Path

from pml_kit.jail import Jail, system_files
from pml_sandbox.child import Command
from pml_sandbox.dialect import Dialect

from .interpreter import Interpreter

ENVIRONMENT = {"LC_ALL": "C.UTF-8", "TZ": "UTC"}
"""All of it."""
BOOT = Path(__file__).with_name("boot.py")
FILE_BYTES = 64 << 20
"""One file that code may write [bytes]."""
LIBRARY_BYTES = 256 << 20
"""Addresses that programs and libraries take up beside the memory that code uses [bytes]."""


class PythonDialect(Dialect):
    """CPython. The bootstrap is told the source; a file of it in the folder would serve nobody."""

    def __init__(self, interpreter: Interpreter, memory_bytes: int) -> None:
        """Take what to start, and what code may use."""
        self._interpreter, self._memory_bytes = interpreter, memory_bytes

    def make(self, folder: str | None, *, writable: bool) -> Command:
        """The interpreter with the bootstrap, in ``folder``."""
        own = () if folder is None else (folder,)
        jail = Jail(
            read=(str(BOOT), *self._interpreter.packages),
            run=(*self._interpreter.parts, *system_files()),
            write=own if writable else (),
            remove=() if writable else own,
            memory_bytes=self._memory_bytes,
            address_bytes=self._memory_bytes + LIBRARY_BYTES,
            file_bytes=FILE_BYTES,
        )
        words = (*self._interpreter.words, str(BOOT), *own)
        return Command(words=words, environment=ENVIRONMENT, folder=folder or "/", jail=jail)
