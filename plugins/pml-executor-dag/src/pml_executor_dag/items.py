"""The items of a task with ``for_each``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pml_hookspecs import Failure, Outcome, Status, Task, Workflow, replace
from pml_kit.references import Slot

from .fields import kind
from .jobs import Job, ResultLookup, gathered, without_running
from .plan import FOR_EACH
from .references import MissingError, opened
from .results import result_value


@dataclass(slots=True)
class Items:
    """The items of one task with ``for_each`` that has begun."""

    task: Task
    values: list[Any]
    outcomes: list[Outcome | None]
    """Outcomes in the order of the items; None for one that has not ended."""
    results: list[Any]
    left: int
    """Items that have not ended."""
    started_at: datetime
    placeholder: bool = False
    """A rehearsal does not know the items; one stands for all."""

    @classmethod
    def of(
        cls,
        task: Task,
        slots: Sequence[Slot],
        found: ResultLookup,
        known: Mapping[str, Outcome],
        warnings: list[str],
    ) -> Items | Outcome:
        """The items, those whose outcome is known ended; or the outcome of a task that has none it can run for."""
        placeholder, before = False, len(warnings)
        try:
            values = found.fill({FOR_EACH: task.step.for_each}, slots, None, warnings)[FOR_EACH]
        except MissingError as exc:
            return without_running(task, Status.ERROR, replace(exc.failure, message=f"for_each: {exc}"))
        simulated = any(reference.task in found.simulated for slot in slots for reference in slot.references)
        if simulated and (len(warnings) > before or not isinstance(values, (list, tuple))):
            warnings[before:] = ["for_each: the items are not known from a simulated result; rehearsed once."]
            values, placeholder = [None], True
        values = opened(values) if isinstance(values, str) else values
        if problem := _problem(task, values):
            return without_running(task, Status.ERROR, problem)
        count = len(values)
        items = cls(task, list(values), [None] * count, [None] * count, count, datetime.now(UTC), placeholder)
        for i in range(count):
            outcome = known.get(f"{task.id}[{i}]")
            if outcome is not None and outcome.status is not Status.INPUT_REQUIRED:
                items.put(i, outcome)
        return items

    def jobs(self) -> Iterator[Job]:
        """The jobs of items that have not ended."""
        return (self._job(i) for i, outcome in enumerate(self.outcomes) if outcome is None)

    def settled(self) -> Iterator[tuple[Job, Outcome]]:
        """The items that have ended, with their outcomes."""
        return ((self._job(i), outcome) for i, outcome in enumerate(self.outcomes) if outcome is not None)

    def _job(self, index: int) -> Job:
        return Job(self.task, f"{self.task.id}[{index}]", index, self.values[index], self.placeholder)

    def put(self, index: int, outcome: Outcome) -> None:
        """Keep the outcome of an item."""
        try:
            # Of a workflow all that its report has; what references see of it is told apart when all have ended.
            value = outcome.output if isinstance(self.task, Workflow) else result_value(self.task, outcome)
            self.results[index] = value if outcome.status.good else None
        except (ValueError, RecursionError):
            message = f"The result of item [{index}] of task {self.task.id!r} cannot be read as JSON."
            failure = Failure("result.unreadable", message)
            outcome = replace(outcome, status=Status.ERROR, output=None, failure=failure)
        self.outcomes[index] = outcome
        self.left -= 1

    def gathered(self) -> Outcome:
        """The outcome of the task, when all items have ended."""
        return gathered(self.task, [o for o in self.outcomes if o is not None], self.results, self.started_at)


def _problem(task: Task, values: Any) -> Failure | None:
    if not isinstance(values, (list, tuple)):
        return Failure("for_each.no_array", f"for_each must find an array, not {kind(values)}.")
    if len(values) > task.step.max_items:
        message = (
            f"for_each has {len(values)} items, and max_items allows {task.step.max_items}; raise it, or ask for less."
        )
        return Failure("for_each.too_many", message)
    return None
