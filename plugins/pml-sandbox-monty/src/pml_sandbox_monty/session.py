"""One run of code in one worker: from message to message until there is a value."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, Literal

from pml_hookspecs import CodeRun, Failure
from pml_hookspecs.clock import Clock
from pml_sandbox import outcomes
from pml_sandbox.calls import BAD_CALL, CallError, CallLimitError, Calls, read_json
from pml_sandbox.child import Text
from pml_sandbox.inputs import surely_larger, to_json
from pml_sandbox.quota import Quota

from . import problems
from .tools import Names, arguments

if TYPE_CHECKING:
    from pml_hookspecs import Run
    from pml_sandbox.limits import Limits
    from pml_sandbox.outcomes import CodeOutcome

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


class Session:
    """One run of code in a worker. Used once."""

    def __init__(
        self, task: CodeRun, run: Run, inputs: bytes, calls: Calls, limits: Limits, *, limit_s: float, log: Any
    ) -> None:
        self._task, self._run, self._calls, self._limits = task, run, calls, limits
        self._limit_s, self._log = limit_s, log
        self._names = Names(task.source, self._at_once)
        self._inputs = inputs
        self._out, self._error = Text(limits.output_bytes), Text(limits.output_bytes)
        self._quota = Quota(task)
        self._flooded = self._too_many = self._overfull = False
        self._waited_for: asyncio.Task[Any] | None = None
        self._under_way: dict[int, asyncio.Task[Any]] = {}
        self._failed: dict[str, CallError] = {}
        self._stopper: asyncio.Timeout
        self._loop = asyncio.get_running_loop()

    async def run(self, workers: Workers, most_s: float) -> CodeOutcome:
        """Run the code for ``most_s`` [s] at the longest, counted from when a worker is there; what came of it.

        The time during which people are asked for its sake does not count.
        """
        from pydantic_monty import MontyCrashedError, MontyError

        limits = {
            "max_feed_duration_secs": max(most_s, 0.001),
            "max_memory": self._limits.memory_bytes,
            "max_recursion_depth": DEEPEST,
            "max_suspensions": self._limits.max_calls * MESSAGES_PER_CALL + SPARE_MESSAGES,
        }
        # What a program has printed counts also when it is stopped; of a function, only with an error that tells all.
        flush_s = 0.0 if self._task.program else None
        await self._quota.begin()
        try:
            with self._mounted() as mount:
                async with workers.session(limits=limits, print_flush_interval=flush_s) as worker:
                    ending = await self._in_time(worker, mount, most_s)
            return self._filled() if await self._quota.exceeded() else ending
        except MontyCrashedError as exc:
            if exc.timed_out:
                return outcomes.timed_out(self._limit_s, output=self._streams(outcomes.TIMED_OUT_EXIT))
            self._log.error("a Monty worker died", problem=str(exc))
            return outcomes.fault("The sandbox's worker died while it ran the code.")
        except MontyError as exc:
            return self._raised(exc)

    @contextmanager
    def _mounted(self) -> Iterator[Any]:
        """The task's folder as Monty takes it; None for none."""
        from pydantic_monty import MountDir

        folder = self._task.folder
        if folder is None:
            yield None
            return
        # Monty's own paths begin with a slash on every system.
        where = folder if folder.startswith("/") else "/folder"
        mode: Literal["read-only", "read-write"] = "read-only" if self._quota.full else "read-write"
        most = self._quota.left_bytes(WRITTEN_BYTES)
        with MountDir(host_path=folder, virtual_path=where, mode=mode, write_bytes_limit=most) as made:
            yield made

    async def _in_time(self, worker: Any, mount: Any, most_s: float) -> CodeOutcome:
        try:
            async with (
                asyncio.timeout(None) as self._stopper,
                Clock(self._run, most_s),
                self._quota.watched(self._overflowed),
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

    def _overflowed(self) -> None:
        self._overfull = True
        self._stop()

    def _filled(self) -> CodeOutcome:
        assert self._quota.limit is not None  # noqa: S101 - it was exceeded
        return outcomes.folder_full(self._quota.limit, output=self._streams(outcomes.KILLED_EXIT))

    def _stopped(self) -> CodeOutcome:
        """Why it did not end by itself."""
        if self._overfull:
            return self._filled()
        killed = self._streams(outcomes.KILLED_EXIT)
        if self._too_many:
            return outcomes.too_many_calls(self._limits.max_calls, output=killed)
        if self._flooded:
            most = self._limits.output_bytes * self._limits.flood_factor
            return outcomes.too_much_output("What the code printed is", most, output=killed)
        return outcomes.timed_out(self._limit_s, output=self._streams(outcomes.TIMED_OUT_EXIT))

    async def _value(self, worker: Any, mount: Any) -> Any:
        from pydantic_monty import (
            AsyncFunctionSnapshot,
            AsyncFutureSnapshot,
            AsyncNameLookupSnapshot,
            MontyComplete,
        )

        inputs = read_json(self._inputs.decode())
        known = {name: value for name, value in inputs.items() if name.isidentifier() and not iskeyword(name)}
        known["inputs"] = inputs
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
        if kept.total_bytes > self._limits.output_bytes * self._limits.flood_factor and not self._flooded:
            self._flooded = True
            self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        """What a callback raises, Monty tells at the end only."""
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
            value = await self._calls.call(tool, self._plain(arguments(tool, given, named)))
            return {"return_value": self._plain(value)}
        except CallLimitError as exc:
            self._too_many = True
            self._stop()
            return self._refusal(exc)
        except CallError as exc:
            return self._refusal(exc)
        except (TypeError, ValueError, RecursionError) as exc:
            return self._refusal(CallError(tool, Failure(BAD_CALL, f"{tool}: {exc}")))
        except Exception:
            self._log.exception("a tool call of code failed in the gateway", tool=tool)
            failure = Failure(outcomes.FAULT, f"The gateway failed to call {tool}; see its log.")
            return self._refusal(CallError(tool, failure))

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
            ValueError: The same, or it is too large.
        """
        most = self._limits.frame_bytes
        if surely_larger(value, most) or len(text := to_json(value)) > most:
            raise ValueError(f"more than the {most} bytes of JSON that fit.")
        return read_json(text.decode())

    def _streams(self, exit_code: int) -> Any:
        if not self._task.program:
            return None
        return {"stdout": self._out.read(), "stderr": self._error.read(), "exit_code": exit_code}

    def _returned(self, value: Any) -> CodeOutcome:
        if self._task.program:
            return outcomes.program_ended(0, self._streams(0))
        too_large = outcomes.too_much_output("What the code returned is", self._limits.frame_bytes)
        if surely_larger(value, self._limits.frame_bytes):
            return too_large
        try:
            text = to_json(value)
        except (TypeError, ValueError, RecursionError) as exc:
            message = f"The code returned a {type(value).__name__} that JSON cannot say: {exc}"
            return outcomes.raised(outcomes.UncaughtError(name="TypeError", message=message))
        if len(text) > self._limits.frame_bytes:
            return too_large
        return outcomes.succeeded(read_json(text.decode()))

    def _raised(self, error: Any) -> CodeOutcome:
        printed = (self._out.read() + self._error.read())[-outcomes.MOST_MESSAGE :]
        ending = problems.ending_of(error, self._limits, self._limit_s, self._failed, printed)
        code = ending.failure.code if ending.failure else ""
        if not self._task.program:
            return ending
        if code != outcomes.RAISED:
            exits = {outcomes.TIMED_OUT: outcomes.TIMED_OUT_EXIT}
            output = self._streams(exits.get(code, outcomes.KILLED_EXIT))
            return outcomes.CodeOutcome(ending.status, ending.failure, output)
        self._error.add(f"{error.display()}\n".encode())
        return outcomes.program_ended(1, self._streams(1))
