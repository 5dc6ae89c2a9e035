"""Checks the types of code against the schemas of the tools that it calls, before it runs. Runs none of it."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import shutil
import tempfile
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from pml_sandbox import endings
from pml_sandbox.child import Listener, start
from pml_sandbox.spawner import Spawner
from pml_sandbox.stubs import TypeScriptStubs

from .dialect import V8_BYTES, DenoCheck

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, CodeRun
    from pml_sandbox.endings import Ending

CHECK_S = 30.0
"""Longest time of one check [s]."""
MEMORY_BYTES = 2 << 30
FILE_BYTES = 64 << 20
MOST_MISTAKES = 20
MOST_KNOWN = 1000
"""Sources that were checked and need not be again."""
_MISTAKE = re.compile(r"^(TS\d+) \[ERROR\]: (.*?)(?=^TS\d+ \[ERROR\]|\Z)", re.MULTILINE | re.DOTALL)
_AT = re.compile(r"at file://\S+/code\.(?:mts|mjs):(\d+):(\d+)")


class _Ended(Listener):
    def __init__(self) -> None:
        self.event = asyncio.Event()

    def ended(self) -> None:
        self.event.set()


class Checker:
    """``deno check`` in a jail, with the tools' types in a file beside the code."""

    def __init__(self, program: Path, catalog: Catalog) -> None:
        """Take Deno's program, and the tools."""
        self._program, self._catalog, self._stubs = program, catalog, TypeScriptStubs()
        self._fine: OrderedDict[str, None] = OrderedDict()
        self._place: Path | None = None
        self._one_at_a_time = asyncio.Lock()
        self._spawner = Spawner()

    def close(self) -> None:
        """Remove its files."""
        self._spawner.close()
        if self._place is not None:
            shutil.rmtree(self._place, ignore_errors=True)
            self._place = None

    async def mistakes(self, task: CodeRun) -> Ending | None:
        """What is wrong with the code, as an ending; None for nothing. JavaScript has no types to check."""
        if task.language != "typescript":
            return None
        if self._place is None:
            self._place = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="pml-check-"))
        declared, source = self._declarations(task), _source(task)
        key = hashlib.sha256(f"{declared}\0{source}".encode(errors="surrogatepass")).hexdigest()
        if key in self._fine:
            self._fine.move_to_end(key)
            return None
        async with self._one_at_a_time:
            ending = _ending(await self._check(declared, source, self._place), task)
        if ending is None:
            self._fine[key] = None
            if len(self._fine) > MOST_KNOWN:
                self._fine.popitem(last=False)
        return ending

    async def _check(self, declared: str, source: str, place: Path) -> str:
        """What Deno has to say; ``""`` for nothing."""
        folder = place / secrets.token_hex(4)
        folder.mkdir()
        try:
            (folder / "tools.d.ts").write_text(declared, encoding="utf-8")
            (folder / "code.mts").write_text(source, encoding="utf-8", errors="surrogatepass")
            command = DenoCheck(self._program, place / "cache", V8_BYTES + MEMORY_BYTES, FILE_BYTES).command(folder)
            child = await start(command, self._spawner, frame_bytes=1 << 20, output_bytes=1 << 20, flood_factor=8)
            child.listener = ended = _Ended()
            try:
                if not child.gone.done():
                    async with asyncio.timeout(CHECK_S):
                        await ended.event.wait()
                return child.error.read() if child.returncode else ""
            except TimeoutError:
                return ""
            finally:
                child.kill()
                await asyncio.wait([child.gone], timeout=2)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _declarations(self, task: CodeRun) -> str:
        """Types of all tools of the servers that the code names."""
        return self._stubs.write([entry for entry in self._catalog if not entry.own and entry.server in task.source])


def _source(task: CodeRun) -> str:
    """The code as it will run, with types; its first line is the third."""
    names = ",".join(name for name in task.inputs if name.isidentifier() and name.isascii())
    head = '/// <reference path="./tools.d.ts" />\n'
    if task.program:
        return f"{head}export {{}}; declare const inputs: any;\n{task.source}"
    taken = f"const {{{names}}} = inputs; " if names else ""
    begin = f"export default async (inputs: any) => {{ {taken}return await (async () => {{"
    return f"{head}{begin}\n{task.source}\n}})(); }}"


_HEAD_LINES = 2


def _ending(said: str, task: CodeRun) -> Ending | None:
    lines = task.source.count("\n") + 1
    found = []
    for mistake in _MISTAKE.finditer(said):
        at = _AT.search(mistake[2])
        line = int(at[1]) - _HEAD_LINES if at else 0
        if 1 <= line <= lines:
            text = mistake[2].partition("\n")[0].strip()
            found.append({"line": line, "column": int(at[2]) if at else 1, "code": mistake[1], "message": text})
    if not found:
        return None
    shown = "; ".join(f"line {one['line']}: {one['message']}" for one in found[:MOST_MISTAKES])
    message = f"The code was not run, its types do not fit: {shown}"
    return endings.failed(endings.INVALID, message, mistakes=found[:MOST_MISTAKES])
