"""What Deno's compiler says of the types of code. Runs none of it."""

from __future__ import annotations

import asyncio
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pml_sandbox.child import Command, start
from pml_sandbox.execution import cpu_limit_s

from .dialect import BOOT, ENVIRONMENT, jailed

if TYPE_CHECKING:
    from pml_hookspecs import CodeRun
    from pml_sandbox.spawner import Spawner

CHECK_S = 30.0
"""Longest time of one check [s]."""
MEMORY_BYTES = 2 << 30
SIZES = {"frame_bytes": 1 << 20, "output_bytes": 1 << 20}
FLAGS = ("--quiet", "--no-remote", "--no-npm", "--config=deno.json", "--no-lock")
STRICT = '{"compilerOptions": {"strict": true}}'
LENIENT = '{"compilerOptions": {"strict": false}}'
"""What has no type is any, and null fits everything."""
_MISTAKE = re.compile(r"^(TS\d+) \[ERROR\]: (.*?)(?=^TS\d+ \[ERROR\]|\Z)", re.MULTILINE | re.DOTALL)
_AT = re.compile(r"at file://\S+/code(\d+)\.ts:(\d+):(\d+)")
_HEAD_LINES = 2
_RESERVED = BOOT.read_text(encoding="utf-8").partition("const RESERVED")[2].partition("};")[0]
RESERVED = frozenset(re.findall(r"(\w+): 1", _RESERVED))
"""Names that no input can have in code: the bootstrap says which."""


class TypeMistake(NamedTuple):
    """What the compiler says."""

    line: int
    column: int
    code: str
    """Code of the mistake, such as ``TS2322``."""
    message: str
    """Its first line."""
    text: str
    """All of it."""


class Checker:
    """``deno check`` in a jail, with the tools' types in a file beside the code: it reads what the code imports."""

    def __init__(self, program: Path, spawner: Spawner) -> None:
        """Take Deno's program, and what starts processes."""
        self._program, self._spawner = program, spawner
        self._place: Path | None = None

    def close(self) -> None:
        """Remove its files."""
        if self._place is not None:
            shutil.rmtree(self._place, ignore_errors=True)
            self._place = None

    async def found(
        self, declared: str, tasks: Sequence[CodeRun], *, strict: bool, most_s: float = CHECK_S
    ) -> Sequence[Sequence[TypeMistake]] | None:
        """What is wrong with each of ``tasks``, all of them checked at once; None when it took too long.

        Args:
            declared: Types of tools.
            tasks: Code in TypeScript.
            strict: Whether what has no type of its own, or may be null, is a mistake.
            most_s: Longest time [s].
        """
        self._place = self._place or Path(tempfile.mkdtemp(prefix="pml-check-"))
        folder = self._place / secrets.token_hex(4)
        folder.mkdir()
        try:
            files = {f"code{number}.ts": source_of(task) for number, task in enumerate(tasks)}
            more = {"tools.d.ts": declared, "deno.json": STRICT if strict else LENIENT}
            for file, text in {**files, **more}.items():
                (folder / file).write_text(text, encoding="utf-8", errors="surrogatepass")
            said = await self._said(self._command(folder, files), most_s)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return None if said is None else _by_task(said, tasks)

    def _command(self, folder: Path, files: Iterable[str]) -> Command:
        cache = folder.with_name("cache")
        cache.mkdir(exist_ok=True)
        return Command(
            words=(str(self._program), "check", *FLAGS, *files),
            environment={**ENVIRONMENT, "DENO_DIR": str(cache)},
            folder=str(folder),
            jail=jailed(self._program, MEMORY_BYTES, read=(str(folder),), write=(str(cache),)),
        )

    async def _said(self, command: Command, most_s: float) -> str | None:
        """What Deno has to say; ``""`` for nothing, None when it did not end in time."""
        child = await start(command, self._spawner, **SIZES)
        child.limit_cpu(cpu_limit_s(most_s))
        try:
            ended, _ = await asyncio.wait([child.gone], timeout=most_s)
            if not ended:
                return None
            return child.error.read() if child.returncode else ""
        finally:
            child.kill()
            await asyncio.wait([child.gone], timeout=2)


def _by_task(said: str, tasks: Sequence[CodeRun]) -> Sequence[Sequence[TypeMistake]]:
    found: list[list[TypeMistake]] = [[] for _ in tasks]
    for mistake in _MISTAKE.finditer(said):
        at = _AT.search(mistake[2])
        if at is None:
            continue
        number, line = int(at[1]), int(at[2]) - _HEAD_LINES
        if 1 <= line <= tasks[number].source.count("\n") + 1:
            text = mistake[2].strip()
            message = text.partition("\n")[0].strip()
            found[number].append(TypeMistake(line, int(at[3]), mistake[1], message, text))
    return found


def source_of(task: CodeRun) -> str:
    """The code as it will run, with types; its first line is the third."""
    names = ",".join(name for name in task.inputs if name.isidentifier() and name.isascii() and name not in RESERVED)
    head = '/// <reference path="./tools.d.ts" />\n'
    if task.program:
        return f"{head}export {{}}; declare const inputs: any;\n{task.source}"
    taken = f"const {{{names}}} = inputs; " if names else ""
    begin = f"export default async (inputs: any) => {{ {taken}return await (async () => {{"
    return f"{head}{begin}\n{task.source}\n}})(); }}"
