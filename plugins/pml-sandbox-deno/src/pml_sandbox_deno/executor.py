"""Runs code in Deno."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pml_hookspecs import CodeRun, Failure, Verdict, setting

if TYPE_CHECKING:
    from pml_hookspecs import Outcome, Run, Services, Session, Task
    from pml_sandbox.bridge import Bridge
    from pml_sandbox.jail import Wall
    from pml_sandbox.outcomes import CodeOutcome

    from .code_check import CodeCheck

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """``[plugins.deno]``."""

    jail: Literal["required", "preferred"] = setting(
        "preferred",
        "Where the kernel cannot wall code in: 'required' runs none, 'preferred' warns and runs it in Deno's own.",
    )
    spare: int = setting(2, "Processes started before they are needed, some 45 MB each [processes].", ge=0, le=32)
    max_processes: int = setting(
        8, "Pieces of code that run at once; more wait, but one for a principal that has none.", ge=1, le=256
    )
    timeout_s: float = setting(30.0, "Longest time of code that does not say itself [s].", ge=0.05, le=86400)
    memory_bytes: int = setting(512 * MIB, "Memory that code may use [bytes].", ge=96 * MIB, le=64 << 30)
    max_calls: int = setting(1000, "Tool calls that one piece of code may make.", ge=0, le=1_000_000)
    max_in_flight: int = setting(64, "Tool calls of one piece of code under way at once.", ge=1, le=1000)
    frame_bytes: int = setting(8 * MIB, "Inputs, arguments or a result, each at most so large [bytes].", ge=65536)
    output_bytes: int = setting(MIB, "What is kept of each stream that code prints on [bytes].", ge=1024)
    check: bool = setting(
        False, "Check types against the tools' schemas before code runs; takes a second or so for code that is new."
    )


class Deno:
    """The driver. Starts its first process when the first code runs."""

    handles: ClassVar[frozenset[type]] = frozenset({CodeRun})
    languages: ClassVar[frozenset[str]] = frozenset({"typescript", "javascript"})
    settings_type = Settings

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        """Take settings, and services to find tools with and to log to."""
        if services is None:
            raise ValueError("the deno executor needs the gateway's services: Deno(settings, services)")
        self._settings, self._services = settings or Settings(), services
        self._made: Bridge | None = None
        self._entered = False
        self._checking: CodeCheck | None = None
        self._warned = self._warned_of_check = False
        self._gone: Sequence[Wall] | None = None

    async def __aenter__(self) -> Self:
        self._entered = True
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._entered = False
        if self._made is not None:
            await self._made.close()
            self._made = None
        checking, self._checking = self._checking, None
        if checking is not None:
            await checking.close()

    async def execute(self, task: CodeRun, run: Run) -> Outcome:
        """Run ``task`` to its end."""
        from datetime import UTC, datetime

        started_at = datetime.now(UTC)
        ending = await self._refusal(task) if task.language in self.languages else None
        if ending is not None:
            return ending.outcome(task.id, started_at)
        return await self._bridge().run(task, run)

    async def check(self, task: Task, session: Session, *, within_s: float) -> Verdict:
        """Whether code parses, and what the compiler says of its types, as far as there is time for that."""
        from pml_sandbox import outcomes
        from pml_sandbox.verdicts import verdict

        if not isinstance(task, CodeRun) or task.language not in self.languages:
            return Verdict()
        if self._walls_missing() and self._settings.jail == "required":
            return Verdict(problems=(Failure(outcomes.FAULT, self._unwalled()),))
        made = self._checking
        if made is None:
            from .code_check import CodeCheck

            made = CodeCheck(find_program(), self._services.catalog)
            # Outside of a gateway that is up, nothing is left behind.
            self._checking = made if self._entered else None
        walled = not any(wall.name == "files" for wall in self._walls_missing())
        try:
            return await made.verdict(task, session, within_s, walled=walled)
        except OSError as exc:
            self._services.log.warning("code cannot be parsed", problem=str(exc))
            return verdict("nothing", unchecked="The parser cannot be started, or failed; see the gateway's log.")
        finally:
            if made is not self._checking:
                await made.close()

    def _walls_missing(self) -> Sequence[Wall]:
        from pml_sandbox.jail import missing

        if self._gone is None:
            self._gone = missing()
        return self._gone

    def _unwalled(self) -> str:
        named = "; ".join(f"{wall.name}: {wall.detail}" for wall in self._walls_missing())
        return (
            f"Code runs in a kernel jail only ([plugins.deno] jail = 'required'), and walls are missing: {named}. "
            "Run the gateway where they stand, or set jail = 'preferred'."
        )

    async def _refusal(self, task: CodeRun) -> CodeOutcome | None:
        """What keeps ``task`` from running; None when nothing does."""
        from pml_sandbox import outcomes

        gone = self._walls_missing()
        if gone and self._settings.jail == "required":
            return outcomes.fault(self._unwalled())
        if gone and not self._warned:
            self._warned = True
            named = "; ".join(f"{wall.name}: {wall.detail}" for wall in gone)
            self._services.log.warning("code runs without some walls of the kernel jail", missing=named)
        walled = not any(wall.name == "files" for wall in gone)
        if task.folder is not None and not walled and (link := await asyncio.to_thread(way_out, Path(task.folder))):
            return outcomes.fault(
                f"The folder holds a symbolic link that leads out of it, {link.name!r}, and no kernel jail stands here "
                "that would stop code from following it. Remove the link."
            )
        if self._settings.check:
            return await self._type_mistakes(task, walled=walled)
        return None

    async def _type_mistakes(self, task: CodeRun, *, walled: bool) -> CodeOutcome | None:
        """What is wrong with the code's types; None for nothing, and where checking would not be safe."""
        if not walled:
            if not self._warned_of_check:
                self._warned_of_check = True
                self._services.log.warning("types are not checked: Deno's check reads files that the code names")
            return None
        if self._checking is None:
            from .code_check import CodeCheck

            self._checking = CodeCheck(find_program(), self._services.catalog)
        return await self._checking.checker.mistakes(task)

    def _bridge(self) -> Bridge:
        if self._made is None:
            from pml_sandbox.bridge import Bridge
            from pml_sandbox.limits import Limits

            from .dialect import DenoDialect
            from .jails import Jails

            chosen = self._settings
            limits = Limits(
                timeout_s=chosen.timeout_s,
                memory_bytes=chosen.memory_bytes,
                max_calls=chosen.max_calls,
                max_in_flight=chosen.max_in_flight,
                frame_bytes=chosen.frame_bytes,
                output_bytes=chosen.output_bytes,
            )
            program = find_program()
            self._made = Bridge(
                DenoDialect(program, chosen.memory_bytes, Jails(program, chosen.memory_bytes)),
                limits,
                catalog=self._services.catalog,
                log=self._services.log,
                spare=chosen.spare,
                most_processes=chosen.max_processes,
            )
            if self._entered:
                self._made.open()
        return self._made


def find_program() -> Path:
    """Deno as the wheel brings it.

    Raises:
        FileNotFoundError: The wheel is damaged.
    """
    import deno  # type: ignore[import-untyped]

    return Path(deno.find_deno_bin()).resolve()


def way_out(folder: Path) -> Path | None:
    """A symbolic link below ``folder`` that leads out of it; None when there is none."""
    inside = folder.resolve()
    for place, directories, files in os.walk(folder):
        for name in (*directories, *files):
            path = Path(place, name)
            if path.is_symlink() and not path.resolve().is_relative_to(inside):
                return path
    return None
