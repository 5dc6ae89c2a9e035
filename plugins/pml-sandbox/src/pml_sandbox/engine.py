"""The base of engines: executors of code but for how one piece runs. Imports what it needs once code is there."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from pml_hookspecs import CodeRun, Failure, Status
from pml_kit.offers import Verdict

from .pieces import EngineSettings, Piece, ProcessSettings

if TYPE_CHECKING:
    from pml_hookspecs import Check, Outcome, Run, Services, Session, Task
    from pml_kit.jail import Wall

    from .dialect import Dialect
    from .fair_slots import FairSlots
    from .outcomes import CodeOutcome
    from .pool import Pool

S = TypeVar("S", bound=EngineSettings)
P = TypeVar("P", bound=ProcessSettings)


class Engine(Generic[S]):
    """An executor of code. Holds what one engine has as another: settings, walls, turns, limits, and how code ends.

    A subclass names itself and its languages, and says how one piece runs (:meth:`perform`) and how many run at once
    (:meth:`places`). It may look at code beforehand (:meth:`look`) and has something to close (:meth:`close`).
    """

    handles: ClassVar[frozenset[type]] = frozenset({CodeRun})
    name: ClassVar[str]
    """As in the table ``[plugins.NAME]``."""
    languages: ClassVar[frozenset[str]]
    settings_type: ClassVar[type[Any]]

    def __init__(self, settings: S | None = None, services: Services | None = None) -> None:
        """Take settings, and services to find tools with and to log to. Starts nothing.

        Raises:
            ValueError: There are no services.
        """
        if services is None:
            own = type(self).__name__
            raise ValueError(f"the {self.name} executor needs the gateway's services: {own}(settings, services)")
        self._settings: S = settings or self.settings_type()
        self._services = services
        self._making = asyncio.Lock()
        """Held while what all pieces share is made."""
        self._entered = self._warned = False
        self._gone: Sequence[Wall] | None = None
        self._turns: list[FairSlots] = []
        """By how deep code is nested."""

    async def perform(self, piece: Piece) -> CodeOutcome:
        """Run ``piece`` to its end, for :meth:`Piece.left_s` at the longest.

        Raises:
            OSError: What runs it cannot be started.
            subprocess.SubprocessError: Its jail cannot be put up.
        """
        raise NotImplementedError

    def places(self) -> int:
        """Pieces of code that run at once, at each depth."""
        raise NotImplementedError

    async def prepare(self) -> None:
        """Get ready to run code. Nothing, unless overridden.

        Raises:
            OSError: The engine is not there; told to whoever asked as a fault of the executor.
        """

    async def look(self, task: CodeRun, session: Session, within_s: float) -> Verdict:
        """As :meth:`check`, of code in one of its languages that would be run. Tells nothing, unless overridden."""
        return Verdict()

    async def close(self) -> None:
        """End all that is kept for the next piece. Nothing, unless overridden."""

    async def __aenter__(self) -> Self:
        self._entered = True
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._entered = False
        await self.close()

    async def execute(self, task: CodeRun, run: Run) -> Outcome:
        """Run ``task`` to its end."""
        from pml_kit.outcomes import ended

        started_at, begun_s = datetime.now(UTC), time.monotonic()
        ending = await self.refusal(task) or await self._ending(task, run, begun_s)
        return ended(task, started_at, ending.status, output=ending.output, failure=ending.failure)

    async def check(self, task: Task, session: Session, *, within_s: float) -> Verdict:
        """What can be told of ``task`` without running any of it."""
        from . import outcomes
        from .verdicts import LONGEST, TOO_LONG, verdict

        if not isinstance(task, CodeRun) or task.language not in self.languages:
            return Verdict()
        if problem := self._unwalled():
            return Verdict(problems=(Failure(outcomes.FAULT, problem),))
        if len(task.source) > LONGEST:
            return verdict("nothing", unchecked=TOO_LONG)
        return await self.look(task, session, within_s)

    async def refusal(self, task: CodeRun) -> CodeOutcome | None:
        """Why ``task`` does not run; None when it does. Warns once of walls that do not stand."""
        from . import outcomes
        from .nesting import MOST_NESTED, depth

        if task.language not in self.languages:
            return outcomes.unknown_language(task.language, self.languages)
        if problem := self._unwalled():
            return outcomes.fault(problem)
        if depth() >= MOST_NESTED:
            return outcomes.nested_code(MOST_NESTED)
        if task.folder is not None and not await asyncio.to_thread(os.path.isdir, task.folder):
            return outcomes.fault(f"The folder {task.folder!r} is not there.")
        if (gone := self.missing_walls()) and not self._warned:
            self._warned = True
            self._services.log.warning("code runs without some walls of the kernel jail", missing=_named(gone))
        return None

    def missing_walls(self) -> Sequence[Wall]:
        """Walls of the kernel jail that do not stand here."""
        from pml_kit.jail import missing

        if self._gone is None:
            self._gone = missing()
        return self._gone

    def _unwalled(self) -> str:
        """Why no code may run without walls that are missing; ``""`` when it may."""
        gone, chosen = self.missing_walls(), getattr(self._settings, "jail", None)
        if not gone or chosen == "preferred":
            return ""
        by, otherwise = (
            (f" ([plugins.{self.name}] jail = 'required')", ", or set jail = 'preferred'") if chosen else ("", "")
        )
        return (
            f"Code runs in a kernel jail only{by}, and walls are missing: {_named(gone)}. "
            f"Run the gateway where they stand{otherwise}."
        )

    def turn(self, principal: str, end_s: float | None = None) -> AbstractAsyncContextManager[None]:
        """One of the places at this depth; waited for until ``end_s`` on the monotonic clock, or as long as it takes.

        Raises:
            TimeoutError: On entering: there was none in time.
        """
        from .fair_slots import FairSlots
        from .nesting import MOST_NESTED, depth

        # Whoever waits holds a turn. Were they all of one kind, some could wait for what they hold themselves.
        self._turns = self._turns or [FairSlots(self.places()) for _ in range(MOST_NESTED)]
        return self._turns[min(depth(), MOST_NESTED - 1)].turn(principal, end_s)

    async def _ending(self, task: CodeRun, run: Run, begun_s: float) -> CodeOutcome:
        from . import outcomes
        from .inputs import InputsError, encode_inputs
        from .nesting import depth

        await self.prepare()
        try:
            inputs = encode_inputs(task.inputs, self._settings.frame_bytes)
        except InputsError as exc:
            return outcomes.CodeOutcome(Status.ERROR, exc.failure)
        limit_s = self._settings.timeout_s if task.timeout_s is None else task.timeout_s
        # Code that other code waits for must not wait for ever for a turn that others like it hold.
        end_s = begun_s + limit_s if depth() else None
        async with AsyncExitStack() as held:
            try:
                await held.enter_async_context(self.turn(run.session.principal, end_s))
            except TimeoutError:
                return outcomes.timed_out(limit_s)
            return await self._performed(task, run, inputs, limit_s, end_s)

    async def _performed(
        self, task: CodeRun, run: Run, inputs: bytes, limit_s: float, end_s: float | None
    ) -> CodeOutcome:
        from . import outcomes
        from .calls import Calls
        from .nesting import deeper
        from .quota import Quota

        log, chosen = self._services.log, self._settings
        most, at_once = chosen.max_calls, chosen.max_in_flight
        calls = Calls(task, run, self._services.catalog, log, most=most, most_at_once=at_once)
        quota = Quota(task)
        piece = Piece(task=task, run=run, inputs=inputs, calls=calls, quota=quota, limit_s=limit_s, end_s=end_s)
        try:
            await quota.begin()
            with deeper():
                ending = await self.perform(piece)
        except (OSError, subprocess.SubprocessError) as exc:
            log.error("a sandbox cannot be started", language=task.language, problem=str(exc))  # noqa: TRY400 - expected
            return outcomes.not_started(exc)
        # Code that ends quickly is not looked at while it runs.
        if quota.limit is not None and await quota.exceeded():
            return outcomes.folder_full(quota.limit, output=ending.output)
        return ending


class ProcessEngine(Engine[P]):
    """An engine whose code runs in processes, each used once, that speak the protocol of :mod:`.execution`.

    A subclass says which program that is: :meth:`dialect`.
    """

    _pool: Pool | None = None

    async def dialect(self) -> Dialect:
        """What runs the code; asked for once.

        Raises:
            OSError: It is not there.
        """
        raise NotImplementedError

    def places(self) -> int:
        """As the setting says."""
        return self._settings.max_processes

    async def prepare(self) -> None:
        """Find the program. Raises as :meth:`dialect`."""
        await self._made()

    async def close(self) -> None:
        """End spare processes, and wait until all that were ever started are gone."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def perform(self, piece: Piece) -> CodeOutcome:
        """Run it in a process of its own."""
        from .execution import Execution, source_file

        pool = await self._made()
        with source_file(piece.task, pool.dialect) as (folder, file):
            async with pool.child(folder, writable=not piece.quota.full) as child:
                execution = Execution(child, piece, pool.dialect, self._settings, self._services.log)
                return await execution.run(file)

    async def _made(self) -> Pool:
        """The processes of all pieces: kept ready while the gateway is up, else each run leaves nothing."""
        async with self._making:
            if self._pool is None:
                from .pool import Pool

                self._pool = Pool(await self.dialect(), self._settings, self._services.log)
                if self._entered:
                    self._pool.open()
            return self._pool


def _named(walls: Iterable[Wall]) -> str:
    return "; ".join(f"{wall.name}: {wall.detail}" for wall in walls)


def wall_checks(remedy: str, name: str) -> Iterable[Check]:
    """What the doctor says of the walls around the engine ``name``; ``remedy`` where one does not stand."""
    from pml_kit.jail import walls

    return [wall.check(remedy, f"jail of the {name} sandbox") for wall in walls()]
