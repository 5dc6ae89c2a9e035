"""Runs code in CPython."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pml_hookspecs import CodeRun, setting
from pml_kit.offers import Verdict
from pml_sandbox.engine import ProcessEngine
from pml_sandbox.pieces import ProcessSettings

if TYPE_CHECKING:
    from pml_hookspecs import Services, Session

    from .dialect import PythonDialect


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(ProcessSettings):
    """``[plugins.cpython]``."""

    python: str = setting(
        "",
        "Interpreter to run code with, such as that of a virtual environment whose packages code may import; "
        "'' for the gateway's own, without any packages.",
    )


class CPython(ProcessEngine[Settings]):
    """The driver. Starts its first process when the first code runs.

    All of Python can do all that a process can, so there is none without every wall of the jail.
    """

    name: ClassVar[str] = "cpython"
    languages: ClassVar[frozenset[str]] = frozenset({"python"})
    opt_in: ClassVar[bool] = True
    settings_type = Settings

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        """Take settings, and services to find tools with and to log to.

        Raises:
            RuntimeError: Not all walls of the jail stand on this machine.
            ValueError: There are no services.
        """
        super().__init__(settings, services)
        if gone := self.missing_walls():
            raise RuntimeError(
                "all of Python is run in a whole kernel jail only, and walls are missing: "
                + "; ".join(f"{wall.name}: {wall.detail}" for wall in gone)
                + ". Remove pml-sandbox-cpython, or run the gateway where they stand; pml-sandbox-monty needs none"
            )

    @classmethod
    def programs(cls) -> frozenset[str]:
        """What it is preferred for: programs need files and imports. None where it would not start."""
        from pml_kit.jail import missing

        return frozenset() if missing() else cls.languages

    async def look(self, task: CodeRun, session: Session, within_s: float) -> Verdict:
        """Whether code compiles, where the gateway's own interpreter runs it; another one may know another Python."""
        if self._settings.python:
            return Verdict(unchecked="It runs in another Python than the gateway, which may take other code.")
        from .code_check import check

        return check(task)

    async def dialect(self) -> PythonDialect:
        """The interpreter is started and says where it lies, which takes what it takes."""
        from .dialect import PythonDialect
        from .interpreter import find

        return PythonDialect(await asyncio.to_thread(find, self._settings.python), self._settings.memory_bytes)
