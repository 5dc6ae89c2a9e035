"""Which executor runs which kind of task."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pml_hookspecs import CapabilityRun, CodeRun, Executor, Failure, Outcome, Run, Status, Task, ToolCall, Workflow

from .dispatch import ended
from .errors import OperatorError

if TYPE_CHECKING:
    from .direct import DirectExecutor

KINDS: Mapping[type, str] = {Workflow: "workflow", CodeRun: "code", CapabilityRun: "capability"}
"""Task types and their names in ``[gateway.executors]``."""


class Executors:
    """The bottom of the chain: hands each task to the executor of its kind."""

    def __init__(self, direct: DirectExecutor) -> None:
        self._direct = direct
        self._by_type: dict[type, tuple[str, Executor]] = {}

    def add(self, name: str, executor: Executor, chosen: Mapping[str, str]) -> None:
        """Let ``executor`` run the kinds it handles; ``chosen`` says whom a kind belongs to when two claim it.

        Raises:
            OperatorError: Two executors claim a kind and the configuration does not choose.
        """
        for task_type in executor.handles:
            kind = KINDS[task_type]
            if chosen.get(kind, name) != name:
                continue
            if (other := self._by_type.get(task_type)) is not None:
                raise OperatorError(
                    f"executors {other[0]!r} and {name!r} both run {kind} tasks",
                    f'Choose: [gateway.executors] {kind} = "{name}"',
                )
            self._by_type[task_type] = (name, executor)

    async def execute(self, task: Task, run: Run) -> Outcome:
        """Run ``task``; a kind that nobody runs is an outcome that says what to install."""
        if isinstance(task, ToolCall):
            return await self._direct.execute(task, run)
        found = self._by_type.get(type(task))
        if found is None:
            kind = KINDS[type(task)]
            message = f"No executor for {kind} tasks is installed; install a plugin that provides one."
            return ended(task, datetime.now(UTC), Status.ERROR, failure=Failure("executor.missing", message))
        return await found[1].execute(task, run)
