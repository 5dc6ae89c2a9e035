"""What code in CPython may touch: the walls around its process."""

from __future__ import annotations

from pathlib import Path

from pml_sandbox.jail import Jail, system_files

from .interpreter import Interpreter

BOOT = Path(__file__).with_name("boot.py")
FILE_BYTES = 64 << 20
"""One file that code may write [bytes]."""
LIBRARY_BYTES = 256 << 20
"""Addresses that programs and libraries take up beside the memory that code uses [bytes]."""


class Jails:
    """Makes jails for an interpreter; the one without a folder once."""

    def __init__(self, interpreter: Interpreter, memory_bytes: int) -> None:
        """Take the interpreter and what code may use."""
        self._interpreter, self._memory_bytes = interpreter, memory_bytes
        self._usual: Jail | None = None

    def __call__(self, folder: str | None, *, writable: bool = True) -> Jail:
        """One with that folder to write in, or only to read and remove from."""
        if folder is not None:
            return self._jail((folder,), ()) if writable else self._jail((), (folder,))
        self._usual = self._usual or self._jail((), ())
        return self._usual

    def _jail(self, write: tuple[str, ...], remove: tuple[str, ...]) -> Jail:
        return Jail(
            read=(str(BOOT), *self._interpreter.packages),
            run=(*self._interpreter.parts, *system_files()),
            write=write,
            remove=remove,
            memory_bytes=self._memory_bytes,
            address_bytes=self._memory_bytes + LIBRARY_BYTES,
            file_bytes=FILE_BYTES,
        )
