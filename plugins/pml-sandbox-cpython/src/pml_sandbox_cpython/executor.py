"""Runs code in CPython."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from pml_hookspecs import CodeRun, Verdict, setting

if TYPE_CHECKING:
    from pml_hookspecs import Outcome, Run, Services, Session, Task
    from pml_sandbox.bridge import Bridge


MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """``[plugins.cpython]``."""

    python: str = setting(
        "",
        "Interpreter to run code with, such as that of a virtual environment whose packages code may import; "
        "'' for the gateway's own, without any packages.",
    )
    spare: int = setting(1, "Processes started before they are needed, some 20 MB each [processes].", ge=0, le=32)
    max_processes: int = setting(
        8, "Pieces of code that run at once; more wait, but one for a principal that has none.", ge=1, le=256
    )
    timeout_s: float = setting(30.0, "Longest time of code that does not say itself [s].", ge=0.05, le=86400)
    memory_bytes: int = setting(512 * MIB, "Memory that code may use [bytes].", ge=32 * MIB, le=64 << 30)
    max_calls: int = setting(1000, "Tool calls that one piece of code may make.", ge=0, le=1_000_000)
    max_in_flight: int = setting(64, "Tool calls of one piece of code under way at once.", ge=1, le=1000)
    frame_bytes: int = setting(8 * MIB, "Inputs, arguments or a result, each at most so large [bytes].", ge=65536)
    output_bytes: int = setting(MIB, "What is kept of each stream that code prints on [bytes].", ge=1024)


class CPython:
    """The driver. Starts its first process when the first code runs.

    All of Python can do all that a process can, so there is none without every wall of the jail.
    """

    handles: ClassVar[frozenset[type]] = frozenset({CodeRun})
    languages: ClassVar[frozenset[str]] = frozenset({"python"})
    opt_in: ClassVar[bool] = True
    settings_type = Settings

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        """Take settings, and services to find tools with and to log to.

        Raises:
            RuntimeError: Not all walls of the jail stand on this machine.
            ValueError: There are no services.
        """
        from pml_sandbox.jail import missing

        if services is None:
            raise ValueError("the cpython executor needs the gateway's services: CPython(settings, services)")
        if gone := missing():
            raise RuntimeError(
                "all of Python is run in a whole kernel jail only, and walls are missing: "
                + "; ".join(f"{wall.name}: {wall.detail}" for wall in gone)
                + ". Remove pml-sandbox-cpython, or run the gateway where they stand; pml-sandbox-monty needs none"
            )
        self._settings, self._services = settings or Settings(), services
        self._made: Bridge | None = None
        self._making = asyncio.Lock()
        self._entered = False

    @classmethod
    def programs(cls) -> frozenset[str]:
        """What it is preferred for: programs need files and imports. None where it would not start."""
        from pml_sandbox.jail import missing

        return frozenset() if missing() else cls.languages

    async def __aenter__(self) -> Self:
        self._entered = True
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._entered = False
        if self._made is not None:
            await self._made.close()
            self._made = None

    async def execute(self, task: CodeRun, run: Run) -> Outcome:
        """Run ``task`` to its end."""
        return await (await self._bridge()).run(task, run)

    async def check(self, task: Task, session: Session, *, within_s: float) -> Verdict:
        """Whether code compiles, where the gateway's own interpreter runs it; another one may know another Python."""
        if not isinstance(task, CodeRun) or task.language not in self.languages:
            return Verdict()
        if self._settings.python:
            return Verdict(unchecked="It runs in another Python than the gateway, which may take other code.")
        from .code_check import check

        return check(task)

    async def _bridge(self) -> Bridge:
        async with self._making:
            self._made = self._made or await self._make()
            return self._made

    async def _make(self) -> Bridge:
        from pml_sandbox.bridge import Bridge
        from pml_sandbox.limits import Limits

        from .dialect import PythonDialect
        from .interpreter import find
        from .jails import Jails

        chosen = self._settings
        # The interpreter is started and says where it lies, which takes what it takes.
        interpreter = await asyncio.to_thread(find, chosen.python)
        limits = Limits(
            timeout_s=chosen.timeout_s,
            memory_bytes=chosen.memory_bytes,
            max_calls=chosen.max_calls,
            max_in_flight=chosen.max_in_flight,
            frame_bytes=chosen.frame_bytes,
            output_bytes=chosen.output_bytes,
        )
        made = Bridge(
            PythonDialect(interpreter, Jails(interpreter, chosen.memory_bytes)),
            limits,
            catalog=self._services.catalog,
            log=self._services.log,
            spare=chosen.spare,
            most_processes=chosen.max_processes,
        )
        if self._entered:
            made.open()
        return made
