"""One run of code in one worker: from message to message until there is a value."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pml_hookspecs import Failure
from pml_kit.mcp.result_values import read_json
from pml_kit.system.clock import Clock
from pml_sandbox import outcomes
from pml_sandbox.calls import BAD_CALL, CallError, CallLimitError
from pml_sandbox.child import FLOOD_FACTOR, Text
from pml_sandbox.inputs import python_names, surely_larger, to_json

from . import problems
from .tools import Names, arguments

if TYPE_CHECKING:
    from pml_sandbox.outcomes import CodeOutcome
    from pml_sandbox.pieces import EngineSettings, Piece

    from .workers import Workers

MESSAGES_PER_CALL = 4
SPARE_MESSAGES = 10_000
"""Beside those of calls: Monty counts what it asks the host for, and stops code that asks too often."""
WRITTEN_BYTES = 64 << 20
"""What code may write into its folder [bytes]."""
OR = " or "
"""Between tools one of which has failed."""
DEEPEST = 500
"""Levels of functions that call one another."""


class _TooLargeError(ValueError):
    """What crosses between code and gateway has a limit."""


class Session:
    """One run of code in a worker. Used once."""

    def __init__(self, piece: Piece, settings: EngineSettings, log: Any) -> None:
        self._piece, self._task, self._settings, self._log = piece, piece.task, settings, log
        self._names = Names(piece.task.source, self._at_once)
        self._out, self._error = Text(settings.output_bytes), Text(settings.output_bytes)
        self._why: Callable[..., CodeOutcome] | None = None
        """How the code ends that was stopped for another reason than time."""
        self._waited_for: asyncio.Task[Any] | None = None
        self._under_way: dict[int, asyncio.Task[Any]] = {}
        self._failed: dict[str, CallError] = {}
        self._stopper: asyncio.Timeout | None = None
        """While the code runs."""
        self._loop = asyncio.get_running_loop()

    async def run(self, workers: Workers) -> CodeOutcome:
        """Run the code; what came of it. Its time counts from when a worker is there.

        The time during which people are asked for its sake does not count.
        """
        from pydantic_monty import MontyCrashedError, MontyError

        most_s, limit_s = self._piece.left_s(), self._piece.limit_s
        limits = {
            "max_feed_duration_secs": max(most_s, 0.001),
            "max_memory": self._settings.memory_bytes,
            "max_recursion_depth": DEEPEST,
            "max_suspensions": self._settings.max_calls * MESSAGES_PER_CALL + SPARE_MESSAGES,
        }
        # What a program has printed counts also when it is stopped; of a function, only with an error that tells all.
        flush_s = 0.0 if self._task.program else None
        try:
            with self._mounted() as mount:
                async with workers.session(limits=limits, print_flush_interval=flush_s) as worker:
                    return await self._in_time(worker, mount, most_s)
        except MontyCrashedError as exc:
            if exc.timed_out:
                return outcomes.timed_out(limit_s, output=self._streams(outcomes.TIMED_OUT_EXIT))
            self._log.error("a Monty worker died", problem=str(exc))
            return outcomes.fault("The sandbox's worker died while it ran the code.")
        except MontyError as exc:
            return self._raised(exc)

    @contextmanager
    def _mounted(self) -> Iterator[Any]:
        """The task's folder as Monty takes it; None for none."""
        from pydantic_monty import MountDir

        if self._task.folder is None:
            yield None
            return
        folder = os.path.abspath(self._task.folder)  # noqa: PTH100 - as text, links as they are
        quota = self._piece.quota
        mode: Literal["read-only", "read-write"] = "read-only" if quota.full else "read-write"
        most = quota.left_bytes(WRITTEN_BYTES)
        with MountDir(host_path=folder, virtual_path=folder, mode=mode, write_bytes_limit=most) as made:
            yield made

    @asynccontextmanager
    async def _stoppable(self) -> AsyncIterator[None]:
        async with asyncio.timeout(None) as stopper:
            self._stopper = stopper
            try:
                yield
            finally:
                self._stopper = None

    async def _in_time(self, worker: Any, mount: Any, most_s: float) -> CodeOutcome:
        try:
            async with (
                self._stoppable(),
                Clock(self._piece.run, most_s),
                self._piece.quota.watched(lambda: self._stop(outcomes.folder_full, self._piece.quota.limit)),
            ):
                return self._returned(await self._value(worker, mount))
        except TimeoutError:
            return self._stopped()
        finally:
            # Monty itself goes on with what it waits for when nobody wants that any more.
            calls = [call for call in (self._waited_for, *self._under_way.values()) if call is not None]
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    def _stopped(self) -> CodeOutcome:
        """Why it did not end by itself."""
        if self._why is not None:
            return self._why(output=self._streams(outcomes.KILLED_EXIT))
        return outcomes.timed_out(self._piece.limit_s, output=self._streams(outcomes.TIMED_OUT_EXIT))

    async def _value(self, worker: Any, mount: Any) -> Any:
        from pydantic_monty import (
            AsyncFunctionSnapshot,
            AsyncFutureSnapshot,
            AsyncNameLookupSnapshot,
            MontyComplete,
        )

        inputs = read_json(self._piece.inputs.decode())
        known = {**{name: inputs[name] for name in python_names(inputs)}, "inputs": inputs}
        if self._task.tools != ():
            known["tools"] = self._names.tools
        where = {} if mount is None else {"mount": mount, "cwd": mount.virtual_path}
        step = await worker.feed_start(self._task.source, inputs=known, print_callback=self._printed, **where)
        while not isinstance(step, MontyComplete):
            if isinstance(step, AsyncFunctionSnapshot):
                step = await self._called(step)
            elif isinstance(step, AsyncNameLookupSnapshot):
                found = self._names.attribute(step.object_id, step.variable_name)
                step = await (step.resume() if found is None else step.resume(value=found))
            elif isinstance(step, AsyncFutureSnapshot):
                step = await step.resume(await self._answers(step.pending_call_ids))
        return step.output

    def _printed(self, stream: str, text: str) -> None:
        kept = self._out if stream == "stdout" else self._error
        kept.add(text.encode("utf-8", "backslashreplace"))
        most = self._settings.output_bytes * FLOOD_FACTOR
        if kept.total_bytes > most and self._why is None:
            self._loop.call_soon_threadsafe(self._stop, outcomes.too_much_output, "What the code printed is", most)

    def _stop(self, ending: Callable[..., CodeOutcome], *told: Any) -> None:
        """End the code as ``ending`` has it. What a callback raises, Monty tells at the end only."""
        # What printed is told from another thread: also more than once, and when the code has ended by then.
        if self._why is None and self._stopper is not None:
            self._why = partial(ending, *told)
            self._stopper.reschedule(self._loop.time())

    async def _called(self, step: Any) -> Any:
        """Answer a call: of a tool or a sleep by a promise, of anything else at once."""
        if step.is_os_function:
            return await self._asked_of_the_system(step)
        meant = self._names.called(step.object_id, step.function_name, step.args)
        if meant is None:
            return await step.resume_auto()
        if step.allow_eager_await and step.object_id is not None:
            # The code waits for this call and nothing else: one message less than with a promise.
            return await step.resume_auto()
        tool, given = meant
        self._under_way[step.call_id] = self._loop.create_task(self._call(tool, given, step.kwargs))
        return await step.resume({"future": ...})

    async def _asked_of_the_system(self, step: Any) -> Any:
        name = step.function_name
        if name == "import":
            refused = {"exc_type": "ModuleNotFoundError", "message": problems.missing_module(str(step.args[0]))}
            return await step.resume(refused)
        if name == "system.sleep":
            await asyncio.sleep(max(step.args[0], 0))
            return await step.resume({"return_value": None})
        if name == "system.async_sleep":
            self._under_way[step.call_id] = self._loop.create_task(self._sleep(step.args[0]))
            return await step.resume({"future": ...})
        # Files: those of the folder, if there is one.
        return await step.resume_auto()

    @staticmethod
    async def _sleep(seconds: float) -> dict[str, Any]:
        await asyncio.sleep(max(seconds, 0))
        return {"return_value": None}

    async def _answers(self, numbers: list[int]) -> dict[int, Any]:
        """Answers that are there, once there is one."""
        waited = [self._under_way[number] for number in numbers]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        found = {}
        for number in numbers:
            if self._under_way[number].done():
                found[number] = self._under_way.pop(number).result()
        return found

    async def _at_once(self, tool: str, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call a tool for Monty, which waits."""
        self._waited_for = asyncio.current_task()
        try:
            answer = await self._call(tool, given, named)
        finally:
            self._waited_for = None
        if "return_value" in answer:
            return answer["return_value"]
        raise RuntimeError(answer["message"])

    async def _call(self, tool: str, given: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """Call a tool; what Monty is to be told of it."""
        try:
            value = await self._piece.calls.call(tool, self._plain(arguments(tool, given, named)))
            return {"return_value": self._plain(value)}
        except CallLimitError as exc:
            self._stop(outcomes.too_many_calls, self._settings.max_calls)
            return self._refusal(exc)
        except CallError as exc:
            return self._refusal(exc)
        except (TypeError, ValueError, RecursionError) as exc:
            return self._refusal(CallError(tool, Failure(BAD_CALL, f"{tool}: {exc}")))

    def _refusal(self, error: CallError) -> dict[str, Any]:
        message = error.failure.message
        before = self._failed.get(message)
        # Monty tells an error by its message alone: of several that failed with it, nobody knows which it was.
        tools = dict.fromkeys([*(before.tool.split(OR) if before else []), error.tool])
        self._failed[message] = CallError(OR.join(tools), error.failure, error.status)
        return {"exc_type": "RuntimeError", "message": error.failure.message}

    def _plain(self, value: Any) -> Any:
        """``value`` as JSON and nothing else, so that what crosses is data.

        Raises:
            TypeError: It is no JSON value.
            ValueError: The same.
            _TooLargeError: It is too large.
        """
        most = self._settings.frame_bytes
        if surely_larger(value, most) or len(text := to_json(value)) > most:
            raise _TooLargeError(f"more than the {most} bytes of JSON that fit.")
        return read_json(text.decode())

    def _streams(self, exit_code: int) -> Any:
        if not self._task.program:
            return None
        return {"stdout": self._out.read(), "stderr": self._error.read(), "exit_code": exit_code}

    def _returned(self, value: Any) -> CodeOutcome:
        if self._task.program:
            return outcomes.program_ended(0, self._streams(0))
        try:
            return outcomes.succeeded(self._plain(value))
        except _TooLargeError:
            return outcomes.too_much_output("What the code returned is", self._settings.frame_bytes)
        except (TypeError, ValueError, RecursionError) as exc:
            message = f"The code returned a {type(value).__name__} that JSON cannot say: {exc}"
            return outcomes.raised(outcomes.UncaughtError(name="TypeError", message=message))

    def _raised(self, error: Any) -> CodeOutcome:
        printed = (self._out.read() + self._error.read())[-outcomes.MOST_MESSAGE :]
        ending = problems.ending_of(error, self._piece.limit_s, self._settings.memory_bytes, self._failed, printed)
        code = ending.failure.code if ending.failure else ""
        if not self._task.program:
            return ending
        if code != outcomes.RAISED:
            exits = {outcomes.TIMED_OUT: outcomes.TIMED_OUT_EXIT}
            output = self._streams(exits.get(code, outcomes.KILLED_EXIT))
            return outcomes.CodeOutcome(ending.status, ending.failure, output)
        self._error.add(f"{error.display()}\n".encode())
        return outcomes.program_ended(1, self._streams(1))
