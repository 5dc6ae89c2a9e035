"""Runs code in Deno."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pml_hookspecs import CodeRun, setting
from pml_sandbox.engine import ProcessEngine
from pml_sandbox.pieces import MIB, ProcessSettings

if TYPE_CHECKING:
    from pml_hookspecs import Session
    from pml_kit.offers import Verdict
    from pml_sandbox.outcomes import CodeOutcome

    from .code_check import CodeCheck
    from .dialect import DenoDialect


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(ProcessSettings):
    """``[plugins.deno]``."""

    jail: Literal["required", "preferred"] = setting(
        "preferred",
        "Where the kernel cannot wall code in: 'required' runs none, 'preferred' warns and runs it in Deno's own.",
    )
    spare: int = setting(2, "Processes started before they are needed, some 45 MB each [processes].", ge=0, le=32)
    memory_bytes: int = setting(512 * MIB, "Memory that code may use [bytes].", ge=96 * MIB, le=64 << 30)
    check: bool = setting(
        False, "Check types against the tools' schemas before code runs; takes a second or so for code that is new."
    )


class Deno(ProcessEngine[Settings]):
    """The driver. Starts its first process when the first code runs."""

    name: ClassVar[str] = "deno"
    languages: ClassVar[frozenset[str]] = frozenset({"typescript", "javascript"})
    settings_type = Settings

    _checking: CodeCheck | None = None
    _warned_of_check = False

    async def close(self) -> None:
        """End all processes, of checks too."""
        await super().close()
        checking, self._checking = self._checking, None
        if checking is not None:
            await checking.close()

    async def dialect(self) -> DenoDialect:
        """Deno as the wheel brings it."""
        from .dialect import DenoDialect

        return DenoDialect(find_program(), self._settings.memory_bytes)

    async def look(self, task: CodeRun, session: Session, within_s: float) -> Verdict:
        """Whether code parses, and what the compiler says of its types, as far as there is time for that."""
        from pml_sandbox.verdicts import verdict

        # Outside of a gateway that is up, nothing is left behind.
        made = self._code_check(kept=self._entered)
        try:
            return await made.verdict(task, session, within_s, walled=self._keeps_files())
        except OSError as exc:
            self._services.log.warning("code cannot be parsed", problem=str(exc))
            return verdict("nothing", unchecked="The parser cannot be started, or failed; see the gateway's log.")
        finally:
            if made is not self._checking:
                await made.close()

    def _code_check(self, *, kept: bool = True) -> CodeCheck:
        from .code_check import CodeCheck

        made = self._checking or CodeCheck(find_program(), self._services.catalog)
        self._checking = made if kept else self._checking
        return made

    def _keeps_files(self) -> bool:
        """Whether the jail keeps code from files that are not its own."""
        return not any(wall.name == "files" for wall in self.missing_walls())

    async def refusal(self, task: CodeRun) -> CodeOutcome | None:
        """As of every engine, and where its folder has a way out, or its types do not fit if they are checked."""
        from pml_sandbox import outcomes

        if (refused := await super().refusal(task)) is not None:
            return refused
        walled = self._keeps_files()
        if task.folder is not None and not walled and (link := await asyncio.to_thread(way_out, Path(task.folder))):
            return outcomes.fault(
                f"The folder holds a symbolic link that leads out of it, {link.name!r}, and no kernel jail stands here "
                "that would stop code from following it. Remove the link."
            )
        if self._settings.check and walled:
            return await self._code_check().type_mistakes(task)
        if self._settings.check and not self._warned_of_check:
            self._warned_of_check = True
            self._services.log.warning("types are not checked: Deno's check reads files that the code names")
        return None


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
