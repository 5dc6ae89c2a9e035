"""Whether TypeScript and JavaScript parse: one process of Deno that parses and runs nothing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_sandbox.child import Child, Command, Listener, start
from pml_sandbox.inputs import to_json
from pml_sandbox.spawner_process import SCRATCH
from pml_sandbox.verdicts import SYNTAX, Mistake

from .dialect import ENVIRONMENT, FLAGS, jailed

if TYPE_CHECKING:
    from pml_hookspecs import CodeRun
    from pml_sandbox.spawner import Spawner

SCRIPT = Path(__file__).with_name("parse.js")
MEMORY_BYTES = 256 << 20
FRAME_BYTES = 1 << 20
IDLE_S = 60.0
"""A process that nobody wanted for so long is ended [s]."""


class Parser(Listener):
    """Asks the process, one source after the other. Starts it when it is needed."""

    def __init__(self, program: Path, spawner: Spawner) -> None:
        """Take Deno's program, and what starts processes in a jail."""
        self._program, self._spawner = program, spawner
        self._turn = asyncio.Lock()
        self._child: Child | None = None
        self._answer: asyncio.Future[Any] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._number = 0

    async def mistake(self, task: CodeRun) -> Mistake | None:
        """What is wrong with the syntax of ``task``; None for nothing.

        Raises:
            OSError: The process cannot be started, or died of the source.
        """
        async with self._turn:
            if self._idle is not None:
                self._idle.cancel()
            try:
                told = await self._asked(task)
            except BaseException:
                # Whatever it does now, nobody waits for it.
                self.close()
                raise
            self._idle = asyncio.get_running_loop().call_later(IDLE_S, self.close)
        if told is None:
            return None
        lines = task.source.count("\n") + 1
        line = None if told["line"] is None else min(max(told["line"], 1), lines)
        # Valid JavaScript is nearly always valid TypeScript; of a program, nobody else says which it is.
        certain = not (task.program and task.language == "javascript")
        return Mistake(code=SYNTAX, message=told["message"], line=line, column=told["column"], certain=certain)

    async def _asked(self, task: CodeRun) -> Any:
        if self._child is None or self._child.gone.done():
            self._child = await start(
                self._command(), self._spawner, frame_bytes=FRAME_BYTES, output_bytes=FRAME_BYTES, flood_factor=1
            )
            self._child.listener = self
        self._number += 1
        self._answer = asyncio.get_running_loop().create_future()
        asked = {"id": self._number, "code": task.source, "language": task.language, "program": task.program}
        self._child.send(to_json(asked) + b"\n")
        return await self._answer

    def close(self) -> None:
        """End the process."""
        if self._idle is not None:
            self._idle.cancel()
        child, self._child = self._child, None
        if child is not None:
            child.kill()
        self._failed("the parser was closed")

    async def gone(self) -> None:
        """As :meth:`close`, and wait until it has ended."""
        child = self._child
        self.close()
        if child is not None:
            await asyncio.wait([child.gone], timeout=2)

    def frame(self, data: bytes) -> None:
        told = json.loads(data)
        if told["t"] == "parsed" and told["id"] == self._number and self._answer and not self._answer.done():
            self._answer.set_result(told["problem"])

    def flooded(self, what: str, limit_bytes: int) -> None:
        self._failed(f"{what} more than {limit_bytes} bytes")

    def ended(self) -> None:
        said = "" if self._child is None else self._child.error.read().strip()[-500:]
        self._failed(f"the parser ended: {said}")

    def _failed(self, why: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(OSError(why))

    def _command(self) -> Command:
        return Command(
            words=(str(self._program), "run", *FLAGS, str(SCRIPT)),
            environment={**ENVIRONMENT, "DENO_DIR": SCRATCH},
            folder=self._program.anchor,
            jail=jailed(self._program, MEMORY_BYTES, read=(str(SCRIPT),), write=(SCRATCH,)),
            scratch="pml-parse-",
        )
