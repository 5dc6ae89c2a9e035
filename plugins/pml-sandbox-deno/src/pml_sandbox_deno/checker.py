"""Checks the types of code against the schemas of the tools that it calls. Runs none of it."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pml_sandbox import outcomes
from pml_sandbox.child import Listener, start
from pml_sandbox.execution import cpu_limit_s
from pml_sandbox.stubs import TypeScriptStubs

from .dialect import DenoCheck
from .jails import V8_BYTES

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, CodeRun, Json
    from pml_sandbox.outcomes import CodeOutcome
    from pml_sandbox.spawner import Spawner

CHECK_S = 30.0
"""Longest time of one check [s]."""
MEMORY_BYTES = 2 << 30
FILE_BYTES = 64 << 20
MOST_MISTAKES = 20
MOST_KNOWN = 1000
"""Sources that were checked and need not be again."""
_MISTAKE = re.compile(r"^(TS\d+) \[ERROR\]: (.*?)(?=^TS\d+ \[ERROR\]|\Z)", re.MULTILINE | re.DOTALL)
_AT = re.compile(r"at file://\S+/code(\d+)\.ts:(\d+):(\d+)")
_HEAD_LINES = 2
RESERVED = frozenset(
    re.findall(
        r"\w+",
        "arguments await break case catch class const continue debugger default delete do else enum eval export "
        "extends false finally for function if implements import in inputs instanceof interface let new null package "
        "private protected public return static super switch this throw tools true try typeof var void while with "
        "yield",
    )
)
"""Names that no input can have in code, as ``boot.js`` has them."""


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


class _ExitListener(Listener):
    def __init__(self) -> None:
        self.event = asyncio.Event()

    def ended(self) -> None:
        self.event.set()


class Checker:
    """``deno check`` in a jail, with the tools' types in a file beside the code."""

    def __init__(self, program: Path, catalog: Catalog, spawner: Spawner) -> None:
        """Take Deno's program, the tools, and what starts processes."""
        self._program, self._catalog, self._stubs = program, catalog, TypeScriptStubs()
        self._fine: OrderedDict[str, None] = OrderedDict()
        self._place: Path | None = None
        self._one_at_a_time = asyncio.Lock()
        self._spawner = spawner

    def close(self) -> None:
        """Remove its files."""
        if self._place is not None:
            shutil.rmtree(self._place, ignore_errors=True)
            self._place = None

    async def mistakes(self, task: CodeRun) -> CodeOutcome | None:
        """What is wrong with the code, as an ending; None for nothing. JavaScript has no types to check."""
        if task.language != "typescript":
            return None
        declared = self._declarations(task)
        key = hashlib.sha256(f"{declared}\0{source_of(task)}".encode(errors="surrogatepass")).hexdigest()
        if key in self._fine:
            self._fine.move_to_end(key)
            return None
        async with self._one_at_a_time:
            (found,) = await self.found(declared, [task], strict=True) or [()]
        if found:
            return _ending(found)
        self._fine[key] = None
        if len(self._fine) > MOST_KNOWN:
            self._fine.popitem(last=False)
        return None

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
        if self._place is None:
            self._place = Path(tempfile.mkdtemp(prefix="pml-check-"))
        sources = [source_of(task) for task in tasks]
        said = await self._check(declared, sources, self._place, strict=strict, most_s=most_s)
        if said is None:
            return None
        found: list[list[TypeMistake]] = [[] for _ in tasks]
        for mistake in _MISTAKE.finditer(said):
            at = _AT.search(mistake[2])
            if at is None:
                continue
            task, line = tasks[int(at[1])], int(at[2]) - _HEAD_LINES
            if 1 <= line <= task.source.count("\n") + 1:
                text = mistake[2].strip()
                found[int(at[1])].append(
                    TypeMistake(line, int(at[3]), mistake[1], text.partition("\n")[0].strip(), text)
                )
        return found

    async def _check(
        self, declared: str, sources: Sequence[str], place: Path, *, strict: bool, most_s: float
    ) -> str | None:
        """What Deno has to say; ``""`` for nothing, None when it did not end in time."""
        folder = place / secrets.token_hex(4)
        folder.mkdir()
        try:
            (folder / "tools.d.ts").write_text(declared, encoding="utf-8")
            files = [f"code{i}.ts" for i in range(len(sources))]
            for file, source in zip(files, sources, strict=True):
                (folder / file).write_text(source, encoding="utf-8", errors="surrogatepass")
            check = DenoCheck(self._program, place / "cache", V8_BYTES + MEMORY_BYTES, FILE_BYTES)
            command = check.command(folder, files, strict=strict)
            child = await start(command, self._spawner, frame_bytes=1 << 20, output_bytes=1 << 20, flood_factor=8)
            child.limit_cpu(cpu_limit_s(most_s))
            child.listener = ended = _ExitListener()
            try:
                if not child.gone.done():
                    async with asyncio.timeout(most_s):
                        await ended.event.wait()
                return child.error.read() if child.returncode else ""
            except TimeoutError:
                return None
            finally:
                child.kill()
                await asyncio.wait([child.gone], timeout=2)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _declarations(self, task: CodeRun) -> str:
        """Types of all tools of the servers that the code names."""
        return self._stubs.write([entry for entry in self._catalog if not entry.own and entry.server in task.source])


def source_of(task: CodeRun) -> str:
    """The code as it will run, with types; its first line is the third."""
    names = ",".join(name for name in task.inputs if name.isidentifier() and name.isascii() and name not in RESERVED)
    head = '/// <reference path="./tools.d.ts" />\n'
    if task.program:
        return f"{head}export {{}}; declare const inputs: any;\n{task.source}"
    taken = f"const {{{names}}} = inputs; " if names else ""
    begin = f"export default async (inputs: any) => {{ {taken}return await (async () => {{"
    return f"{head}{begin}\n{task.source}\n}})(); }}"


def _ending(found: Sequence[TypeMistake]) -> CodeOutcome:
    told: list[dict[str, Json]]
    told = [{"line": one.line, "column": one.column, "code": one.code, "message": one.message} for one in found]
    shown = "; ".join(f"line {one['line']}: {one['message']}" for one in told[:MOST_MISTAKES])
    message = f"The code was not run, its types do not fit: {shown}"
    return outcomes.failed(outcomes.INVALID, message, mistakes=told[:MOST_MISTAKES])
