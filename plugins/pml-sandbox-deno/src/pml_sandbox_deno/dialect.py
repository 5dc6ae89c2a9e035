"""What the bridge has to know of Deno."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pml_sandbox.child import Command
from pml_sandbox.jail import Jail, system_files
from pml_sandbox.outcomes import UncaughtError
from pml_sandbox.spawner_process import SCRATCH

from .jails import BOOT, Jails, packages_of

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


class DenoDialect:
    """Deno, one process per run."""

    def __init__(self, program: Path, memory_bytes: int, jail: Jails) -> None:
        """Take Deno's own program, the most memory for V8's heap, and what makes a jail with folders to write in."""
        self.suffixes: Mapping[str, str] = {"typescript": ".mts", "javascript": ".mjs"}
        self._program, self._heap_mib, self._jail = program, memory_bytes >> 20, jail
        self._usual: Command | None = None

    def command(self, folder: str | None, *, writable: bool = True) -> Command:
        """``deno run`` of the bootstrap, with no more than ``folder``."""
        if folder is not None:
            return self._command(folder, writable=writable)
        self._usual = self._usual or self._command(None, writable=True)
        return self._usual

    def _command(self, folder: str | None, *, writable: bool) -> Command:
        jail = self._jail(folder, writable=writable)
        found = () if folder is None or not jail.keeps_files() else packages_of(folder)
        # Where it starts, which is the folder: names with commas cannot be said. To Deno, to remove is to write.
        granted = () if folder is None else (f"--allow-read={','.join(('.', *found))}",)
        if folder is not None and (writable or jail.keeps_files()):
            granted = (*granted, "--allow-write=.", *(f"--deny-write={one}" for one in found))
        words = (
            str(self._program),
            "run",
            *(PACKAGE_FLAGS if found else FLAGS),
            f"--v8-flags=--max-old-space-size={self._heap_mib}",
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

    def raised(self, error: Mapping[str, Any], source: str) -> UncaughtError:
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
        return UncaughtError(
            name=name,
            message=message.strip(),
            line=frames[0][1] if frames else None,
            column=frames[0][2] if frames else None,
            stack=tuple(f"{where} (line {line}, column {column})" for where, line, column in frames),
        )

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


STRICT = '{"compilerOptions": {"strict": true}}'
LENIENT = '{"compilerOptions": {"strict": false}}'


class DenoCheck:
    """``deno check``, which runs nothing but reads what the code imports: only ever in a jail."""

    def __init__(self, program: Path, cache: Path, memory_bytes: int, file_bytes: int) -> None:
        """Take Deno's program, a folder for what it keeps between checks, and its limits."""
        self._program, self._cache = program, cache
        self._memory_bytes, self._file_bytes = memory_bytes, file_bytes

    def command(self, folder: Path, files: Sequence[str], *, strict: bool) -> Command:
        """Check ``files`` in ``folder``; unless ``strict``, what has no type is any, and null fits everything."""
        self._cache.mkdir(exist_ok=True)
        (folder / "deno.json").write_text(STRICT if strict else LENIENT, encoding="utf-8")
        jail = Jail(
            read=(str(folder),),
            run=(str(self._program), *system_files()),
            write=(str(self._cache),),
            memory_bytes=self._memory_bytes,
            file_bytes=self._file_bytes,
        )
        flags = ("--quiet", "--no-remote", "--no-npm", "--config=deno.json", "--no-lock")
        return Command(
            words=(str(self._program), "check", *flags, *files),
            environment={**ENVIRONMENT, "DENO_DIR": str(self._cache)},
            folder=str(folder),
            jail=jail,
        )
