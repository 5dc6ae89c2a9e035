"""Undoes what a failed workflow did, as far as its tasks say how."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Failure, Outcome, Status, Task, replace

from .expansion import Expansion
from .jobs import UNDO, Job, delay_s, fill_job
from .references import MissingError
from .scheduler import Scheduler, attempt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pml_hookspecs import Run

    from .plan import Node


@dataclass(frozen=True, slots=True)
class UndoResult:
    """How the undoing of one task or item ended."""

    id: str
    """Id of the task or item that was undone."""
    outcome: Outcome

    @property
    def waits(self) -> bool:
        """Whether somebody has to look first."""
        return self.outcome.status is Status.INPUT_REQUIRED

    def told(self) -> dict[str, Any]:
        """For the report."""
        end: dict[str, Any] = {"id": self.id, "status": self.outcome.status.value}
        if self.outcome.failure is not None:
            end["error"] = {"code": self.outcome.failure.code, "message": self.outcome.failure.message}
        return end


async def undo(ran: Scheduler, nodes: Mapping[str, Node], run: Run) -> list[UndoResult]:
    """Run ``compensate`` of what ended well, the last to end first, one after the other.

    What is known to have been undone before is not undone again.

    Returns:
        What came of each, in that order. One that fails stops no other; one that waits for somebody is the last.
    """
    undone: list[UndoResult] = []
    for job in reversed(ran.completed):
        if (step := job.task.step.compensate) is None:
            continue
        before = ran.undone.get(job.child)
        outcome = await _one(job, step, ran, nodes, run) if before is None else before
        undone.append(UndoResult(job.child, outcome))
        if undone[-1].waits:
            break
    return undone


async def _one(done: Job, task: Task, ran: Scheduler, nodes: Mapping[str, Node], run: Run) -> Outcome:
    own = done.task.id
    found = ran.found
    if done.index is not None:
        # Here the id means the result of this item, as the task undoes what was done for it.
        found = replace(
            found, results={**found.results, own: ran.items[own].results[done.index]}, empty=found.empty - {own}
        )
    # What has to be undone is undone, however much was brought in before.
    found = replace(found, expansion=Expansion())
    job = Job(task, f"{done.child}{UNDO}", done.index, done.item)
    try:
        job.filled = fill_job(job, nodes[own].undo, found)[0]
    except (MissingError, KeyError) as exc:
        missing = exc if isinstance(exc, MissingError) else MissingError(f"task {exc} has no result")
        return _failed(task, missing.failure)
    if (failure := await ran.resume(job)) is not None or job.filled is None:
        return _failed(task, failure or Failure("workflow.forgotten", "There is nothing to run."))
    while True:
        outcome = await attempt(replace(job.filled, id=job.path_id), run, datetime.now(UTC))
        if outcome.cost_usd is not None:
            ran.cost_usd = (ran.cost_usd or 0.0) + outcome.cost_usd
        delay = delay_s(job, outcome)
        if delay is None:
            return outcome
        await asyncio.sleep(delay)
        job.attempt += 1


def _failed(task: Task, failure: Failure) -> Outcome:
    return Outcome(task_id=task.id, status=Status.ERROR, started_at=datetime.now(UTC), duration_ms=0, failure=failure)


def is_undone(known: Mapping[str, Outcome]) -> bool:
    """Whether a workflow of which this is known has failed, and what it did is being undone."""
    return any(id_.endswith(UNDO) for id_ in known)


def with_undone(failure: Failure, undone: Sequence[UndoResult]) -> Failure:
    """``failure``, saying what was undone and what was not."""
    if not undone:
        return failure
    left = [one.id for one in undone if one.outcome.status is not Status.OK]
    message = f"{failure.message} Undone: {len(undone) - len(left)} of {len(undone)}."
    if left:
        message += f" Not undone, look yourself: {', '.join(left)}."
    return replace(failure, message=message, details={**failure.details, "not_undone": left})
