"""Runs code in Monty."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from pml_hookspecs import CodeRun, setting
from pml_sandbox.engine import Engine
from pml_sandbox.pieces import MIB, EngineSettings

if TYPE_CHECKING:
    from pml_hookspecs import Session as CallerSession
    from pml_kit.offers import Verdict
    from pml_sandbox.outcomes import CodeOutcome
    from pml_sandbox.pieces import Piece

    from .code_check import CodeCheck
    from .workers import Workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(EngineSettings):
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
    memory_bytes: int = setting(128 * MIB, "Memory that code may use [bytes].", ge=MIB, le=64 << 30)


class Monty(Engine[Settings]):
    """The driver. Starts its workers when the first code runs."""

    name: ClassVar[str] = "monty"
    languages: ClassVar[frozenset[str]] = frozenset({"python"})
    settings_type = Settings

    _workers: Workers | None = None
    _checking: CodeCheck | None = None

    def places(self) -> int:
        """As the setting says."""
        return self._settings.workers

    async def perform(self, piece: Piece) -> CodeOutcome:
        """Run it in a worker."""
        from .session import Session

        async with self._pool() as workers:
            return await Session(piece, self._settings, self._services.log).run(workers)

    async def look(self, task: CodeRun, session: CallerSession, within_s: float) -> Verdict:
        """What Monty's parser and type checker say of code; nothing of it is run."""
        from pml_sandbox.verdicts import late

        from .code_check import CodeCheck

        self._checking = self._checking or CodeCheck(self._services.catalog)
        try:
            async with asyncio.timeout(within_s), self.turn(session.principal), self._pool() as workers:
                return await self._checking.verdict(task, session, workers, within_s)
        except TimeoutError:
            return late("nothing", "The code was", within_s)

    async def close(self) -> None:
        """End all workers."""
        workers, self._workers = self._workers, None
        if workers is not None:
            await workers.close()

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
