"""One run of code in one process: frames to calls, answers to frames, and what the run came to.

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
import math
import os
import secrets
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CodeRun, Failure
from pml_kit.mcp.result_values import read_json
from pml_kit.system.clock import Clock

from . import outcomes
from .calls import UNREADABLE, CallError, CallLimitError
from .child import Child, Listener
from .inputs import to_json
from .memory import Memory

if TYPE_CHECKING:
    from .dialect import Dialect
    from .outcomes import CodeOutcome
    from .pieces import EngineSettings, Piece

CPU_MARGIN_S = 5
"""What a process may have used before its code began, and uses to end [s]."""
_CPU_USED_UP = {-signal.SIGXCPU} if sys.platform == "linux" else frozenset[int]()
WATCH_S = 0.025
"""Between two looks at how much memory the process uses [s]."""
DEEPEST = 200
"""Levels of nesting in what code returns."""
MOST_PRINTED = 4000
"""Characters of what the code printed that its failure tells."""


class Execution(Listener):
    """One run of code in a process. Used once."""

    def __init__(self, child: Child, piece: Piece, dialect: Dialect, settings: EngineSettings, log: Any) -> None:
        self._child, self._piece, self._task, self._dialect = child, piece, piece.task, dialect
        self._settings, self._log = settings, log
        self._loop = asyncio.get_running_loop()
        self._ending: asyncio.Future[CodeOutcome] = self._loop.create_future()
        self._under_way: set[asyncio.Task[None]] = set()
        self._waiting: deque[tuple[int, str, Any]] = deque()
        self._begun = False
        """Whether a call began in this turn of the loop."""
        self._uncaught: dict[int, CallError] = {}
        self._answers: list[bytes] = []
        self._context = Context()

    async def run(self, file: str | None) -> CodeOutcome:
        """Have the process run the code; what came of it. The process is dead or dying then.

        Args:
            file: Where the source lies, if it does.
        """
        self._child.listener = self
        self._context = copy_context()
        self._memory = Memory(self._child.pid)
        self._watch()
        try:
            if self._child.gone.done():
                self.ended()
            else:
                self._child.limit_cpu(cpu_limit_s(self._piece.limit_s))
                self._child.send(_order(self._piece, file))
                if self._task.program and self._task.tools == ():
                    self._child.no_more()
            # The clock stands still while people are asked for this code's sake.
            async with Clock(self._piece.run, self._piece.left_s()), self._piece.quota.watched(self._overflowed):
                # Not the future itself, which would be cancelled along with whoever waits for it.
                await asyncio.wait((self._ending,))
        except TimeoutError:
            self._late()
        finally:
            self._watcher.cancel()
            self._memory.close()
            self._child.kill()
            for call in self._under_way:
                call.cancel()
            await asyncio.gather(*self._under_way, return_exceptions=True)
        return self._ending.result()

    def _overflowed(self) -> None:
        self._stop(outcomes.folder_full, self._piece.quota.limit)

    def _end(self, ending: CodeOutcome) -> None:
        if not self._ending.done():
            self._ending.set_result(ending)
            # At once: until whoever waits for the ending comes round, the code could do more.
            self._child.kill()

    def _stop(self, ending: Callable[..., CodeOutcome], *told: Any) -> None:
        """End it as ``ending`` has it, with what it has said so far."""
        self._end(ending(*told, output=self._streams(outcomes.KILLED_EXIT)))

    def _late(self) -> None:
        self._end(outcomes.timed_out(self._piece.limit_s, output=self._streams(outcomes.TIMED_OUT_EXIT)))

    def _watch(self) -> None:
        self._watcher = self._loop.call_later(WATCH_S, self._watch)
        if not self._child.gone.done() and (self._memory.resident_bytes() or 0) > self._settings.memory_bytes:
            self._out_of_memory()

    def _out_of_memory(self) -> None:
        self._stop(outcomes.out_of_memory, self._settings.memory_bytes)

    def flooded(self, what: str, limit_bytes: int) -> None:
        self._stop(outcomes.too_much_output, what, limit_bytes)

    def ended(self) -> None:
        """The process ended by itself."""
        code, said = self._child.returncode, self._dialect.tidy(self._child.error.read()).strip()
        if self._dialect.out_of_memory(said):
            self._out_of_memory()
        elif code in _CPU_USED_UP:
            self._late()
        elif not self._child.ready:
            self._log.error("a sandbox did not come up", language=self._task.language, exit_code=code, said=said)
            self._end(outcomes.fault("The sandbox could not start; see the gateway's log and pml plugins doctor."))
        elif self._task.program:
            code = 1 if code is None else code
            exit_code = 128 - code if code < 0 else code
            self._end(outcomes.program_ended(exit_code, self._streams(exit_code)))
        else:
            self._end(outcomes.exited(1 if code is None else code, said))

    def _streams(self, exit_code: int) -> Any:
        """The output of a program; None for the body of a function."""
        if not self._task.program:
            return None
        said = self._dialect.tidy(self._child.error.read())
        return {"stdout": self._child.out.read(), "stderr": said, "exit_code": exit_code}

    def frame(self, data: bytes) -> None:
        try:
            self._take(data)
        except RecursionError:
            self._end(outcomes.nested_too_deep(DEEPEST))
        except (ValueError, TypeError, KeyError, AttributeError):
            message = "The code broke the sandbox's own bridge, as code does that changes built-in objects."
            self._end(outcomes.fault(message))

    def _take(self, data: bytes) -> None:
        frame = read_json(data.decode("utf-8", "surrogatepass"))
        kind = frame["t"]
        if kind == "call":
            self._called(int(frame["id"]), str(frame["tool"]), frame.get("args"))
        elif kind == "done":
            self._returned(frame["value"], data)
        elif kind == "fail":
            self._failed(frame["error"])
        elif kind == "ready":
            self._child.ready = True
        else:
            raise ValueError(kind)

    def _returned(self, value: Any, data: bytes) -> None:
        # Counting is quick; only what has that many brackets can be that deep.
        if data.count(b"[") + data.count(b"{") > DEEPEST and _deeper_than(value, DEEPEST):
            self._end(outcomes.nested_too_deep(DEEPEST))
        else:
            self._end(outcomes.succeeded(self._streams(0) if self._task.program else value))

    def _failed(self, told: Any) -> None:
        texts = {key: str(told.get(key) or "") for key in ("name", "message", "stack")}
        error = self._dialect.raised(texts, self._task.source)
        printed = (self._child.out.read() + self._child.error.read())[-MOST_PRINTED:]
        cause = self._uncaught.get(told["call"]) if isinstance(told.get("call"), int) else None
        if cause is not None:
            self._end(outcomes.uncaught_call(error, cause.failure, cause.status, cause.tool, printed=printed))
        elif self._dialect.wants_memory(error):
            self._out_of_memory()
        else:
            self._end(outcomes.raised(error, printed=printed))

    def _called(self, number: int, tool: str, arguments: Any) -> None:
        self._waiting.append((number, tool, arguments))
        self._go_on()

    def _go_on(self) -> None:
        """Start a call if its turn has come, and hear of no more while some have to wait.

        In one turn of the loop one call begins, so that code that calls without end leaves the gateway to others: with
        four, what others wait for took five times as long, with one less than twice as long, and code a tenth longer
        (measured).
        """
        if self._waiting and not self._begun and len(self._under_way) < self._settings.max_in_flight:
            self._begun = True
            self._loop.call_soon(self._next_turn)
            self._start(*self._waiting.popleft())
        self._child.listen(on=not self._waiting)

    def _next_turn(self) -> None:
        self._begun = False
        if self._waiting and not self._ending.done():
            self._go_on()

    def _start(self, number: int, tool: str, arguments: Any) -> None:
        # Frames come in the loop's context, not in that of the run whose calls they are.
        call = self._loop.create_task(self._call(number, tool, arguments), context=self._context.copy())
        self._under_way.add(call)
        call.add_done_callback(self._called_back)

    def _called_back(self, call: asyncio.Task[None]) -> None:
        self._under_way.discard(call)
        if not self._ending.done():
            self._go_on()

    async def _call(self, number: int, tool: str, arguments: Any) -> None:
        try:
            value = to_json(await self._piece.calls.call(tool, arguments))
            if len(value) > self._settings.frame_bytes:
                raise CallError(tool, Failure(UNREADABLE, _too_large(tool, len(value), self._settings.frame_bytes)))
            answer = b'{"t":"ret","id":%d,"value":%b}\n' % (number, value)
        except CallLimitError:
            self._stop(outcomes.too_many_calls, self._settings.max_calls)
            return
        except CallError as exc:
            answer = self._refusal(number, exc)
        except Exception:
            # Whatever it is, code waits for an answer.
            failure = Failure(UNREADABLE, f"The result of {tool} is not JSON that code can read.")
            answer = self._refusal(number, CallError(tool, failure))
        self._answer(answer)
        await self._child.drained()

    def _refusal(self, number: int, error: CallError) -> bytes:
        self._uncaught[number] = error
        told = {
            "message": error.failure.message,
            "code": error.failure.code,
            "status": error.status.value,
            "retryable": error.failure.retryable,
            "tool": error.tool,
        }
        return b'{"t":"ret","id":%d,"error":%b}\n' % (number, to_json(told))

    def _answer(self, line: bytes) -> None:
        """Send it: at once when the code waits for nothing else, else together with those that end by and by."""
        if len(self._under_way) == 1:
            self._child.send(line)
            return
        if not self._answers:
            self._loop.call_soon(self._flush)
        self._answers.append(line)

    def _flush(self) -> None:
        self._child.send(b"".join(self._answers))
        self._answers.clear()


@contextlib.contextmanager
def source_file(task: CodeRun, dialect: Dialect) -> Iterator[tuple[str | None, str | None]]:
    """The task's folder, and a file in it with a program's source, so that it can import what lies beside it."""
    folder, suffix = task.folder and os.path.realpath(task.folder), dialect.suffixes.get(task.language)
    if not (task.program and folder and suffix):
        yield folder, None
        return
    path = Path(folder) / f".pml-{secrets.token_hex(6)}{suffix}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8", errors="surrogatepass") as file:  # noqa: PTH123 - a descriptor
            file.write(task.source)
        yield folder, str(path)
    finally:
        with contextlib.suppress(OSError):
            path.unlink()


def _order(piece: Piece, file: str | None) -> bytes:
    task = piece.task
    order = {"t": "run", "language": task.language, "code": task.source, "program": task.program, "file": file}
    return to_json({**order, "tools": task.tools != ()})[:-1] + b',"inputs":' + piece.inputs + b"}\n"


def cpu_limit_s(limit_s: float) -> int:
    """Time on all processors together that code may use which has so much time by the clock [s]."""
    return math.ceil(limit_s * (os.cpu_count() or 1)) + CPU_MARGIN_S


def _too_large(tool: str, size_bytes: int, limit_bytes: int) -> str:
    return f"The result of {tool} is {size_bytes} bytes; at most {limit_bytes} fit. Ask the tool for less."


def _deeper_than(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most):
        level = [m for v in level for m in (v.values() if isinstance(v, dict) else v if isinstance(v, list) else ())]
        if not level:
            return False
    return True
