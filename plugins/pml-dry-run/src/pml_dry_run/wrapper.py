"""The wrapper: rehearses what is dry, and lets all else pass."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from pml_hookspecs import Outcome, Phase, ToolCall

from .settings import without_level

if TYPE_CHECKING:
    from pml_hookspecs import CallNext, Run, Services, Task

    from .outputs import Outputs
    from .recordings import Recordings
    from .rehearsal import Rehearsals
    from .settings import Settings


class DryRun:
    """Made with the gateway; what rehearses is made at the first rehearsal."""

    phase = Phase.SUBSTITUTE

    def __init__(self, services: Services, settings: Settings, recordings: Recordings, outputs: Outputs) -> None:
        self._needs = (services, settings, recordings, outputs)
        self._rehearsals: Rehearsals | None = None

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        """Let the task pass when it is for real; else make up how it ends."""
        if not run.dry_run:
            return call_next(without_level(task) if isinstance(task, ToolCall) and task.extra else task, run)
        return self.rehearsals().answer(task, run, call_next)

    def rehearsals(self) -> Rehearsals:
        """What rehearses."""
        if self._rehearsals is None:
            from .rehearsal import Rehearsals

            self._rehearsals = Rehearsals(*self._needs)
        return self._rehearsals
