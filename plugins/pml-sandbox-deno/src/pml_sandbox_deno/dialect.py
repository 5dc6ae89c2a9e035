"""How Deno is started, what it may touch, and what it says of errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from pml_kit.jail import Jail, system_files
from pml_sandbox.child import Command
from pml_sandbox.dialect import Dialect, error_at
from pml_sandbox.outcomes import UncaughtError
from pml_sandbox.spawner_process import SCRATCH

V8_BYTES = 560 << 20
"""Memory that Deno counts as its own before it runs anything (RLIMIT_DATA) [bytes]."""
FILE_BYTES = 64 << 20
"""One file that it may write [bytes]."""
PACKAGES = ("node_modules", "../node_modules")
"""Where packages are, seen from the folder of the code: those in it come first, as everywhere."""
BOOT = Path(__file__).with_name("boot.js")
FLAGS = (
    "--quiet",
    "--no-prompt",
    "--no-remote",
    "--no-npm",
    "--no-config",
    "--no-lock",
    "--no-code-cache",
    "--ignore-env",
)
"""No permission but for a folder, nothing fetched, nothing read that lies around."""
PACKAGE_FLAGS = (*(flag for flag in FLAGS if flag != "--no-npm"), "--node-modules-dir=manual")
"""What is installed is used and nothing else. Deno itself lets code read any folder of that name then, wherever it is:
only inside a jail that keeps files."""
ENVIRONMENT = {"DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1"}
"""All of it, but for the folder of Deno's caches."""
_PLACE = re.compile(r"(?:blob:null/[0-9a-f-]{36}|file://\S*/\.pml-[0-9a-f]{12}\.m[tj]s):(\d+):(\d+)")
_BOOTSTRAP = re.compile(r"^.*boot\.js:\d+:\d+.*\n?", re.MULTILINE)
_ANSWERED = re.compile(r"(?<=\S) at file://\S*boot\.js:\d+:\d+$", re.MULTILINE)
"""Stands behind the message of a call's error that a program did not catch."""
_IMPORTING = re.compile(r"^ *await import\(order\.file.*\n *\^\n", re.MULTILINE)
_MEMORY = re.compile(r"out of memory|heap limit|last resort|Failed to reserve|allocation failed", re.IGNORECASE)
_ADVICE = re.compile(
    r"\n *hint: If you want to use [^\n]*|(?<=node_modules directory\.) Ensure you have all your [^\n]*"
)
_PACKAGE = re.compile(
    r"""Import "(?P<bare>[^"\n]+)" not a dependency"""
    r"""|(?:Could not find a matching package for 'npm:(?P<npm>[^'\n]+)' in the node_modules directory\.)"""
    r"""|npm specifiers were requested; but --no-npm is specified"""
    r"""|Requires import access to "[^"\n]*", run again with the --allow-import flag"""
    r"""|A remote specifier was requested: "[^"\n]*", but --no-remote is specified\.?"""
)
"""What Deno says when a module is not there."""
NO_PACKAGES = "Only cells of notebooks have packages; code has what Deno brings, and node: modules."
_WRAPPING = 1
"""Lines that stand before the body of a function."""
_AT_PLACE = re.compile(r"\s+at (?:blob:|file:)\S+:\d+:\d+$")
_NEVER = re.compile(r"error: Top-level await promise never resolved\n.*\n.*\^\n?")


def packages_of(folder: str) -> tuple[str, ...]:
    """Those of :data:`PACKAGES` that are there; a link is none."""
    return tuple(one for one in PACKAGES if (path := Path(folder, one)).is_dir() and not path.is_symlink())


def jailed(
    program: Path, memory_bytes: int, *, read: tuple[str, ...], write: tuple[str, ...], remove: tuple[str, ...] = ()
) -> Jail:
    """A jail around Deno's program, with so much memory beside Deno's own."""
    run, memory_bytes = (str(program), *system_files()), V8_BYTES + memory_bytes
    return Jail(read=read, run=run, write=write, remove=remove, memory_bytes=memory_bytes, file_bytes=FILE_BYTES)


class DenoDialect(Dialect):
    """Deno, one process per run."""

    suffixes: ClassVar[Mapping[str, str]] = {"typescript": ".mts", "javascript": ".mjs"}

    def __init__(self, program: Path, memory_bytes: int) -> None:
        """Take Deno's own program, and the memory that code may use."""
        self._program, self._memory_bytes = program, memory_bytes

    def jail(self, folder: str | None, *, writable: bool = True) -> Jail:
        """One with that folder to write in, or only to read and remove from, and one for Deno's own caches."""
        own = () if folder is None else (folder,)
        packages = () if folder is None else tuple(str(Path(folder, one).resolve()) for one in packages_of(folder))
        write, remove = ((SCRATCH, *own), ()) if writable else ((SCRATCH,), own)
        return jailed(self._program, self._memory_bytes, read=(str(BOOT), *packages), write=write, remove=remove)

    def make(self, folder: str | None, *, writable: bool) -> Command:
        """``deno run`` of the bootstrap, with no more than ``folder``."""
        jail = self.jail(folder, writable=writable)
        found = () if folder is None or not jail.keeps_files() else packages_of(folder)
        # Where it starts, which is the folder: names with commas cannot be said. To Deno, to remove is to write.
        granted = () if folder is None else (f"--allow-read={','.join(('.', *found))}",)
        if folder is not None and (writable or jail.keeps_files()):
            granted = (*granted, "--allow-write=.", *(f"--deny-write={one}" for one in found))
        words = (
            str(self._program),
            "run",
            *(PACKAGE_FLAGS if found else FLAGS),
            f"--v8-flags=--max-old-space-size={self._memory_bytes >> 20}",
            *granted,
            str(BOOT),
        )
        # Deno tries for a sixth of a second when it cannot write what it has compiled. Two runs must not share that.
        return Command(
            words=words,
            environment={**ENVIRONMENT, "DENO_DIR": SCRATCH},
            folder=folder or self._program.anchor,
            jail=jail,
            scratch="pml-deno-",
        )

    def raised(self, error: Mapping[str, str], source: str) -> UncaughtError:
        """Name, message and place as the code's author counts them."""
        name, message, stack = error["name"], error["message"], error["stack"]
        syntax = message.startswith("SyntaxError: ") or name == "SyntaxError"
        if syntax:
            # Below the message Deno shows the line, with a number that is one too high.
            name, stack, message = "SyntaxError", message or stack, message.removeprefix("SyntaxError: ")
            message = _AT_PLACE.sub("", message.partition("\n  |")[0])
        if (found := _PACKAGE.search(message)) is not None:
            message = f"{found[0].rstrip('.')}. {NO_PACKAGES}"
        frames = [frame for text in stack.splitlines() if (frame := _frame(text, source.count("\n") + 1, syntax))]
        return error_at(frames, {"name": name, "message": message.strip()})

    def tidy(self, printed: str) -> str:
        """Without the bootstrap's own places, and with the source under the name ``code``."""
        told = _followed(_NEVER.sub("The code waits for something that will never come.\n", printed))
        told = _IMPORTING.sub("", _ANSWERED.sub("", _PLACE.sub(r"code:\1:\2", told)))
        return _BOOTSTRAP.sub("", told)

    def out_of_memory(self, printed: str) -> bool:
        """V8 says so before it aborts."""
        return bool(re.search(r"Fatal (JavaScript|process) ", printed) and _MEMORY.search(printed)) or (
            "memory allocation of" in printed
        )

    def wants_memory(self, error: UncaughtError) -> bool:
        """What cannot be allocated outside of the heap is a ``RangeError``."""
        return error.name == "RangeError" and "allocation failed" in error.message


def _followed(printed: str) -> str:
    """Deno's advice about packages, as advice that can be followed here."""
    told = _ADVICE.sub("", printed)
    return _PACKAGE.sub(lambda found: f"{found[0]}\n  hint: {_advice(found['bare'] or found['npm'] or '')}", told)


def _advice(specifier: str) -> str:
    name = re.match(r"(?:@[^/@]+/)?[^/@]+", specifier)
    if name is None:
        return "Code has no network. It may import what Deno brings, node: modules, and packages that npm installed."
    return (
        "Nothing is installed while code runs. Packages come from node_modules beside the folder of the code or in it, "
        f"on Linux: npm install --prefix FOLDER {name[0]} (for a notebook, pml notebook show tells FOLDER). Then "
        "import it by name."
    )


def _frame(text: str, lines: int, syntax: bool) -> tuple[str, int, int] | None:  # noqa: FBT001 - what text is from
    """Function, line and column; None for what is not in the source."""
    found = _PLACE.search(text)
    if found is None:
        return None
    line, column = int(found[1]) - _WRAPPING, int(found[2])
    if line > lines and syntax:
        # Something is open at the end of the source.
        return "the code", lines, 1
    if not 1 <= line <= lines:
        return None
    where = text.strip().removeprefix("at ").partition(" (")[0]
    return ("the code" if _PLACE.search(where) or where.endswith("<anonymous>") else where), line, column
