"""Undoes what a failed workflow did, as far as its tasks say how."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Failure, Outcome, Status, Task

from .jobs import Job, delay_s, fill_job
from .references import MissingError
from .scheduler import Scheduler, attempt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pml_hookspecs import Run

    from .plan import Node


async def undo(ran: Scheduler, nodes: Mapping[str, Node], run: Run) -> list[dict[str, Any]]:
    """Run ``compensate`` of what ended well, the last to end first, one after the other.

    Returns:
        What came of each, in that order. One that fails stops no other.
    """
    told = []
    for job in reversed(ran.completed):
        if (step := job.task.step.compensate) is None:
            continue
        outcome = await _one(job, step, ran, nodes, run)
        end: dict[str, Any] = {"id": job.child, "status": outcome.status.value}
        if outcome.failure is not None:
            end["error"] = {"code": outcome.failure.code, "message": outcome.failure.message}
        told.append(end)
    return told


async def _one(done: Job, task: Task, ran: Scheduler, nodes: Mapping[str, Node], run: Run) -> Outcome:
    own = done.task.id
    found = ran.found
    if done.index is not None:
        # Here the id means the result of this item, as the task undoes what was done for it.
        found = replace(
            found, results={**found.results, own: ran.items[own].results[done.index]}, empty=found.empty - {own}
        )
    job = Job(task, f"{done.child}~undo", done.index, done.item)
    try:
        job.filled = fill_job(job, nodes[own].undo, found)[0]
    except (MissingError, KeyError) as exc:
        message = str(exc) if isinstance(exc, MissingError) else f"task {exc} has no result"
        return _failed(task, Failure("reference.missing", message))
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


def with_undone(failure: Failure, undone: list[dict[str, Any]]) -> Failure:
    """``failure``, saying what was undone and what was not."""
    if not undone:
        return failure
    left = [end["id"] for end in undone if end["status"] != Status.OK.value]
    message = f"{failure.message} Undone: {len(undone) - len(left)} of {len(undone)}."
    if left:
        message += f" Not undone, look yourself: {', '.join(left)}."
    return replace(failure, message=message, details={**failure.details, "not_undone": left})
