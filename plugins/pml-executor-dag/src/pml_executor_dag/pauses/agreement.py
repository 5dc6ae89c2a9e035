"""Runs a plan only as it was rehearsed (simulate, review, run).

A rehearsal gives a ``plan_digest``. Whoever runs the plan with that digest has it refused when anything in it changed
since then: its tasks, their arguments and options, or the definitions of the tools that they call.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pml_executor_dag.jobs import without_running
from pml_hookspecs import Failure, Outcome, Phase, RawObject, Status, Workflow, replace

from .plan_digests import changes, digest_of, key_of, parts_of

if TYPE_CHECKING:
    from pml_hookspecs import CallNext, Documents, ExecutionId, Run, Services, Task

REHEARSAL = "~rehearsal"
"""In ``Workflow.known``: the rehearsal that the plan was agreed on in, whose output is the digest. No task can have
such an id."""
COLLECTION = "dag.rehearsed"
KEPT = timedelta(days=1)
"""How long it can be told what changed; the digest itself stays good."""
DIGEST = re.compile(r"[0-9a-f]{64}")
HOW = "To run exactly this plan, send the same request with dry_run false and this plan_digest."


def agreed_on(digest: str) -> Mapping[str, Outcome]:
    """As ``Workflow.known``: to be run only if it still is what ``digest`` was given for."""
    rehearsal = Outcome(task_id=REHEARSAL, status=Status.OK, started_at=datetime.now(UTC), duration_ms=0, output=digest)
    return {REHEARSAL: rehearsal}


def is_agreed_on(workflow: Workflow) -> bool:
    """Whether it may only run as it was rehearsed."""
    return REHEARSAL in workflow.known


class Agreement:
    """Gives rehearsed plans their digest, and holds plans to theirs."""

    phase = Phase.VALIDATE
    after = ("argument_validation?",)

    def __init__(self, services: Services) -> None:
        self._services = services
        self._under_way: set[ExecutionId] = set()
        """Rehearsed workflows, whose parts get no digest of their own."""

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        """Let everything pass but plans that are not what was agreed on."""
        # A plan that is still to be made of an intent comes back here when it is.
        if not isinstance(task, Workflow) or not task.tasks or not (run.dry_run or is_agreed_on(task)):
            return call_next(task, run)
        if not run.dry_run:
            return self._held(task, run, call_next)
        return (
            self._part(task, run, call_next) if run.parent in self._under_way else self._rehearsed(task, run, call_next)
        )

    async def _part(self, task: Workflow, run: Run, call_next: CallNext) -> Outcome:
        self._under_way.add(run.id)
        try:
            return await call_next(task, run)
        finally:
            self._under_way.discard(run.id)

    async def _rehearsed(self, task: Workflow, run: Run, call_next: CallNext) -> Outcome:
        given, task = _taken(task)
        parts = parts_of(task, self._services.catalog, run.session)
        digest = digest_of(parts)
        outcome = await self._part(task, run, call_next)
        output: Any = outcome.output
        # A plan that cannot run at all tells of no tasks.
        if not isinstance(output, Mapping) or "tasks" not in output:
            return outcome
        self._remember(digest, parts, run)
        told: dict[str, Any] = {"plan_digest": digest}
        if outcome.status.good:
            told["how"] = HOW
        if given and given != digest:
            told["plan_changed"] = await self._changes(given, parts, run)
        more = {**output, **told}
        # What was written in few bytes stays so.
        return replace(outcome, output=RawObject.of(more) if isinstance(output, RawObject) else more)

    async def _held(self, task: Workflow, run: Run, call_next: CallNext) -> Outcome:
        given, task = _taken(task)
        parts = parts_of(task, self._services.catalog, run.session)
        if digest_of(parts) == given:
            return await call_next(task, run)
        changed = await self._changes(given, parts, run)
        what = "; ".join(changed) or "what, is not known any more"
        message = (
            f"Nothing was run: the plan is not what was rehearsed. Changed: {what}. "
            "Rehearse it again with dry_run: true, look at it, and run it with the new plan_digest."
        )
        failure = Failure("plan.changed", message, details={"changed": changed, "plan_digest": given})
        return without_running(task, Status.ERROR, failure)

    def _documents(self) -> Documents | None:
        try:
            return self._services.store.documents
        except (RuntimeError, AttributeError):
            return None

    def _remember(self, digest: str, parts: Mapping[str, Any], run: Run) -> None:
        if (documents := self._documents()) is not None:
            key, expires_at = key_of(digest, run.session.principal), datetime.now(UTC) + KEPT
            documents.put_soon(COLLECTION, key, {"parts": parts}, expires_at=expires_at)

    async def _changes(self, given: str, parts: Mapping[str, Any], run: Run) -> list[str]:
        """What is not as it was when ``given`` was told; empty when nobody remembers."""
        documents = self._documents()
        found = None if documents is None else await documents.get(COLLECTION, key_of(given, run.session.principal))
        before: Any = {} if found is None else found.value.get("parts")
        return changes(before, parts) if before else []


def _taken(workflow: Workflow) -> tuple[str, Workflow]:
    """The digest that was agreed on, ``""`` without one, and the workflow without it."""
    known = dict(workflow.known)
    rehearsal = known.pop(REHEARSAL, None)
    return ("", workflow) if rehearsal is None else (str(rehearsal.output), replace(workflow, known=known))
