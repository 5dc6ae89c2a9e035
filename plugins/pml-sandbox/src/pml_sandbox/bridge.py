"""Runs code in child processes, each used once, and lets it call tools.

The protocol: lines of JSON both ways. What the gateway says goes to the process's standard input as it is; what the
process says is on its standard output after the byte 0x1E and the process's mark, at any place of a line; all else
there is text. The first line that a process gets is the mark:

- gateway: ``{"t":"hello","mark":"…"}``; process: ``{"t":"ready"}``
- gateway: ``{"t":"run","language":"…","code":"…","program":bool,"tools":bool,"file":path or null,"inputs":{…}}``, once
- process: ``{"t":"call","id":1,"tool":"server:tool","args":{…}}``, any number of times
- gateway: ``{"t":"ret","id":1,"value":…}`` or ``{"t":"ret","id":1,"error":{"message","code","status","retryable",
  "tool"}}``, in any order
- process, once, unless it just exits: ``{"t":"done","value":…}`` or
  ``{"t":"fail","error":{"name","message","stack","call"}}``, with the number of the call whose error was not caught

Frames end with a line feed. The mark keeps apart what the bootstrap says and what the code prints, which may be text
that came from elsewhere. It gives the code no power to know it: a frame can only ask for what the code may do anyway.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import subprocess
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CodeRun, Outcome, Run, Status
from pml_hookspecs.clock import Clock

from . import nesting, outcomes
from .calls import Calls
from .execution import Execution
from .fair_slots import FairSlots
from .inputs import InputsError, encode_inputs, to_json
from .nesting import MOST_NESTED
from .outcomes import CodeOutcome
from .pool import Pool
from .quota import Quota

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pml_hookspecs import Catalog

    from .dialect import Dialect
    from .limits import Limits


class Bridge:
    """Runs code, several pieces at once.

    While open it keeps processes ready, from its first run on; otherwise each run starts its own and leaves nothing.
    """

    def __init__(
        self, dialect: Dialect, limits: Limits, *, catalog: Catalog, log: Any, spare: int, most_processes: int
    ) -> None:
        """Take what to run and how.

        Args:
            dialect: The program that runs the code.
            limits: Of each run.
            catalog: Finds tools.
            log: Told of faults.
            spare: Processes kept ready; each has the memory of an idle one.
            most_processes: Runs at once, shared out among principals by :class:`.fair_slots.FairSlots`; more wait for
                a slot, on the clock when other code waits for them. Code that other code waits for has as many slots
                of its own, at each depth.
        """
        self._dialect, self._limits, self._catalog, self._log = dialect, limits, catalog, log
        # Whoever waits holds a turn. Were they all of one kind, some could wait for what they hold themselves.
        self._turns = [FairSlots(most_processes) for _ in range(MOST_NESTED)]
        self._pool = Pool(dialect, limits, log, spare)

    def open(self) -> None:
        """Keep processes ready from now on."""
        self._pool.open()

    async def close(self) -> None:
        """End those that are ready, and wait until all that were ever started are gone."""
        await self._pool.close()

    async def run(self, task: CodeRun, run: Run) -> Outcome:
        """Run ``task`` to its end, for :meth:`pml_hookspecs.Executor.execute`."""
        started_at, begun_s = datetime.now(UTC), time.monotonic()
        limit_s = self._limits.timeout_s if task.timeout_s is None else task.timeout_s
        if task.language not in self._dialect.suffixes:
            ending = outcomes.unknown_language(task.language, frozenset(self._dialect.suffixes))
            return ending.outcome(task.id, started_at)
        depth = nesting.depth()
        if depth >= MOST_NESTED:
            return outcomes.nested_code(MOST_NESTED).outcome(task.id, started_at)
        if task.folder is not None and not await asyncio.to_thread(os.path.isdir, task.folder):
            return outcomes.fault(f"The folder {task.folder!r} is not there.").outcome(task.id, started_at)
        try:
            inputs = encode_inputs(task.inputs, self._limits.frame_bytes)
        except InputsError as exc:
            return CodeOutcome(Status.ERROR, exc.failure).outcome(task.id, started_at)
        if depth:
            ending = await self._in_time(task, run, inputs, begun_s + limit_s, limit_s)
        else:
            async with self._turns[0].turn(run.session.principal):
                ending = await self._ready(task, run, inputs, time.monotonic() + limit_s, limit_s)
        return ending.outcome(task.id, started_at)

    async def _in_time(self, task: CodeRun, run: Run, inputs: bytes, end_s: float, limit_s: float) -> CodeOutcome:
        turns = self._turns[nesting.depth()]
        try:
            async with turns.turn(run.session.principal, end_s):
                return await self._ready(task, run, inputs, end_s, limit_s)
        except TimeoutError:
            return outcomes.timed_out(limit_s)

    async def _ready(self, task: CodeRun, run: Run, inputs: bytes, end_s: float, limit_s: float) -> CodeOutcome:
        # How many are under way is for the execution to see to, which stops listening to the process.
        calls = Calls(task, run, self._catalog, most=self._limits.max_calls, most_at_once=None)
        quota = Quota(task)
        try:
            await quota.begin()
            with self._place(task) as (folder, file):
                async with self._pool.child(folder, writable=not quota.full) as child:
                    execution = Execution(
                        child,
                        task,
                        calls,
                        dialect=self._dialect,
                        limits=self._limits,
                        limit_s=limit_s,
                        quota=quota,
                        log=self._log,
                    )
                    with nesting.deeper():
                        # Stands still while people are asked for this code's sake.
                        clock = Clock(run, max(end_s - time.monotonic(), 0))
                        ending = await execution.run(_order(task, inputs, file), clock)
        except (OSError, subprocess.SubprocessError) as exc:
            self._log.error("a sandbox cannot be started", language=task.language, problem=str(exc))
            return outcomes.not_started(exc)
        # Code that ends quickly is not looked at while it runs.
        if quota.limit is not None and await quota.exceeded():
            return outcomes.folder_full(quota.limit, output=ending.output)
        return ending

    @contextmanager
    def _place(self, task: CodeRun) -> Iterator[tuple[str | None, str | None]]:
        """The task's folder, and a file in it with a program's source, so that it can import what lies beside it."""
        folder, suffix = task.folder and os.path.realpath(task.folder), self._dialect.suffixes[task.language]
        if not (task.program and folder and suffix):
            yield folder, None
            return
        path = Path(folder) / f".pml-{secrets.token_hex(6)}{suffix}"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            with open(descriptor, "w", encoding="utf-8", errors="surrogatepass") as file:  # noqa: PTH123 - a descriptor
                file.write(task.source)
            yield folder, str(path)
        finally:
            with contextlib.suppress(OSError):
                path.unlink()


def _order(task: CodeRun, inputs: bytes, file: str | None) -> bytes:
    head = to_json(
        {
            "t": "run",
            "language": task.language,
            "code": task.source,
            "program": task.program,
            "tools": task.tools != (),
            "file": file,
        }
    )
    return head[:-1] + b',"inputs":' + inputs + b"}\n"
