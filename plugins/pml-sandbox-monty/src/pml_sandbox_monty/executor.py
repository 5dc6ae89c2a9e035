"""Runs code in Monty."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pml_hookspecs import CodeRun, Failure, Status, Verdict, setting

if TYPE_CHECKING:
    from pml_hookspecs import Outcome, Run, Services, Task
    from pml_hookspecs import Session as CallerSession
    from pml_sandbox.fair_slots import FairSlots
    from pml_sandbox.jail import Wall
    from pml_sandbox.limits import Limits
    from pml_sandbox.outcomes import CodeOutcome

    from .code_check import CodeCheck
    from .session import Session
    from .workers import Workers

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """``[plugins.monty]``."""

    jail: Literal["required", "preferred"] = setting(
        "preferred",
        "Where the kernel cannot wall workers in: 'required' runs none, 'preferred' relies on Monty and warns.",
    )
    workers: int = setting(
        8,
        "Pieces of code that run at once, some 10 MB each; one more for whoever has none, and as many for code "
        "that other code waits for, at each depth.",
        ge=1,
        le=256,
    )
    timeout_s: float = setting(30.0, "Longest time of code that does not say itself [s].", ge=0.05, le=86400)
    memory_bytes: int = setting(128 * MIB, "Memory that code may use [bytes].", ge=MIB, le=64 << 30)
    max_calls: int = setting(1000, "Tool calls that one piece of code may make.", ge=0, le=1_000_000)
    max_in_flight: int = setting(64, "Tool calls of one piece of code under way at once.", ge=1, le=1000)
    frame_bytes: int = setting(8 * MIB, "Inputs, arguments or a result, each at most so large [bytes].", ge=65536)
    output_bytes: int = setting(MIB, "What is kept of each stream that code prints on [bytes].", ge=1024)


class Monty:
    """The driver. Starts its workers when the first code runs."""

    handles: ClassVar[frozenset[type]] = frozenset({CodeRun})
    languages: ClassVar[frozenset[str]] = frozenset({"python"})
    settings_type = Settings

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        """Take settings, and services to find tools with and to log to.

        Raises:
            ValueError: There are no services.
        """
        if services is None:
            raise ValueError("the monty executor needs the gateway's services: Monty(settings, services)")
        self._settings, self._services = settings or Settings(), services
        self._workers: Workers | None = None
        self._checking: CodeCheck | None = None
        self._making = asyncio.Lock()
        self._turns: list[FairSlots] | None = None
        """By how deep code is nested."""
        self._entered = self._warned = False
        self._gone: Sequence[Wall] | None = None
        self._limited: Limits | None = None

    async def __aenter__(self) -> Self:
        self._entered = True
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._entered = False
        workers, self._workers = self._workers, None
        if workers is not None:
            await workers.close()

    async def execute(self, task: CodeRun, run: Run) -> Outcome:
        """Run ``task`` to its end."""
        from pml_sandbox import outcomes
        from pml_sandbox.inputs import InputsError, encode_inputs

        started_at = datetime.now(UTC)
        if task.language not in self.languages:
            return outcomes.unknown_language(task.language, self.languages).outcome(task.id, started_at)
        if problem := self._problem():
            return outcomes.fault(problem).outcome(task.id, started_at)
        try:
            inputs = encode_inputs(task.inputs, self._settings.frame_bytes)
        except InputsError as exc:
            return outcomes.CodeOutcome(Status.ERROR, exc.failure).outcome(task.id, started_at)
        ending = await self._ending(task, run, inputs)
        return ending.outcome(task.id, started_at)

    async def check(self, task: Task, session: CallerSession, *, within_s: float) -> Verdict:
        """What Monty's parser and type checker say of code; nothing of it is run."""
        from pml_sandbox import outcomes
        from pml_sandbox.verdicts import late

        if not isinstance(task, CodeRun) or task.language not in self.languages:
            return Verdict()
        if problem := self._problem():
            return Verdict(problems=(Failure(outcomes.FAULT, problem),))
        if self._checking is None:
            from .code_check import CodeCheck

            self._checking = CodeCheck(self._services.catalog)
        try:
            async with asyncio.timeout(within_s), self._turn(session.principal), self._pool() as workers:
                return await self._checking.verdict(task, session, workers, within_s)
        except TimeoutError:
            return late("nothing", "The code was", within_s)

    async def _ending(self, task: CodeRun, run: Run, inputs: bytes) -> CodeOutcome:
        from pml_sandbox import outcomes
        from pml_sandbox.nesting import MOST_NESTED, depth

        if depth() >= MOST_NESTED:
            return outcomes.nested_code(MOST_NESTED)
        limits = self._limits()
        limit_s = limits.timeout_s if task.timeout_s is None else task.timeout_s
        # Code that other code waits for must not wait for ever for a turn that others like it hold.
        end_s = time.monotonic() + limit_s if depth() else None
        try:
            async with self._turn(run.session.principal, end_s), self._pool() as workers:
                most_s = limit_s if end_s is None else end_s - time.monotonic()
                return await self._run(self._session(task, run, inputs, limits, limit_s), workers, most_s)
        except TimeoutError:
            return outcomes.timed_out(limit_s)
        except OSError as exc:
            self._services.log.error("the Monty sandbox cannot be started", problem=str(exc))  # noqa: TRY400 - no fault of ours
            return outcomes.not_started(exc)

    def _session(self, task: CodeRun, run: Run, inputs: bytes, limits: Limits, limit_s: float) -> Session:
        from pml_sandbox.calls import Calls

        from .session import Session

        calls = Calls(task, run, self._services.catalog, most=limits.max_calls, most_at_once=limits.max_in_flight)
        return Session(task, run, inputs, calls, limits, limit_s=limit_s, log=self._services.log)

    @staticmethod
    async def _run(session: Session, workers: Workers, most_s: float) -> CodeOutcome:
        from pml_sandbox.nesting import deeper

        with deeper():
            return await session.run(workers, most_s)

    def _turn(self, principal: str, end_s: float | None = None) -> AbstractAsyncContextManager[None]:
        """One of the runs at once; waited for until ``end_s`` on the monotonic clock, or for as long as it takes."""
        from pml_sandbox.fair_slots import FairSlots
        from pml_sandbox.nesting import MOST_NESTED, depth

        # Whoever waits holds a turn. Were they all of one kind, code could wait for what it holds itself.
        self._turns = self._turns or [FairSlots(self._settings.workers) for _ in range(MOST_NESTED)]
        return self._turns[min(depth(), MOST_NESTED - 1)].turn(principal, end_s)

    @asynccontextmanager
    async def _pool(self) -> AsyncIterator[Workers]:
        """The workers of all code; one of its own for code that runs while the gateway is not up."""
        from pml_sandbox.nesting import MOST_NESTED

        from .workers import Workers

        chosen = self._settings
        if self._entered:
            async with self._making:
                if self._workers is None:
                    made = Workers((chosen.workers + 1) * MOST_NESTED, chosen.memory_bytes)
                    await made.open()
                    self._workers = made
            yield self._workers
            return
        made = Workers(1, chosen.memory_bytes)
        await made.open()
        try:
            yield made
        finally:
            await made.close()

    def _limits(self) -> Limits:
        from pml_sandbox.limits import Limits

        if self._limited is not None:
            return self._limited
        chosen = self._settings
        self._limited = Limits(
            timeout_s=chosen.timeout_s,
            memory_bytes=chosen.memory_bytes,
            max_calls=chosen.max_calls,
            max_in_flight=chosen.max_in_flight,
            frame_bytes=chosen.frame_bytes,
            output_bytes=chosen.output_bytes,
        )
        return self._limited

    def _problem(self) -> str:
        """Why no code may run; ``""`` when it may. Warns once of walls that do not stand."""
        from pml_sandbox.jail import missing

        if self._gone is None:
            self._gone = missing()
        gone = self._gone
        if not gone:
            return ""
        named = "; ".join(f"{wall.name}: {wall.detail}" for wall in gone)
        if self._settings.jail == "required":
            return (
                f"Code runs in a kernel jail only ([plugins.monty] jail = 'required'), and walls are missing: {named}. "
                "Run the gateway where they stand, or set jail = 'preferred'."
            )
        if not self._warned:
            self._warned = True
            self._services.log.warning("code runs without some walls of the kernel jail", missing=named)
        return ""
