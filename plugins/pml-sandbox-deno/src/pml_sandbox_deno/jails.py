"""What code in Deno may touch: the walls around its process."""

from __future__ import annotations

from pathlib import Path

from pml_sandbox.jail import Jail, system_files
from pml_sandbox.spawner_process import SCRATCH

V8_BYTES = 560 << 20
"""Memory that Deno counts as its own before it runs anything (RLIMIT_DATA) [bytes]."""
PACKAGES = ("node_modules", "../node_modules")
"""Where packages are, seen from the folder of the code: those in it come first, as everywhere."""
FILE_BYTES = 64 << 20
"""One file that code may write [bytes]."""
BOOT = Path(__file__).with_name("boot.js")


def packages_of(folder: str) -> tuple[str, ...]:
    """Those of :data:`PACKAGES` that are there; a link is none."""
    return tuple(one for one in PACKAGES if (path := Path(folder, one)).is_dir() and not path.is_symlink())


class Jails:
    """Makes jails for Deno."""

    def __init__(self, program: Path, memory_bytes: int) -> None:
        """Take Deno's program and what code may use."""
        self._program, self._memory_bytes = program, memory_bytes

    def __call__(self, folder: str | None, *, writable: bool = True) -> Jail:
        """One with that folder to write in, or only to read and remove from, and one for Deno's own caches."""
        own = () if folder is None else (folder,)
        packages = () if folder is None else tuple(str(Path(folder, one).resolve()) for one in packages_of(folder))
        return Jail(
            read=(str(BOOT), *packages),
            run=(str(self._program), *system_files()),
            write=(SCRATCH, *own) if writable else (SCRATCH,),
            remove=() if writable else own,
            memory_bytes=V8_BYTES + self._memory_bytes,
            file_bytes=FILE_BYTES,
        )
