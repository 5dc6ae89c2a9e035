"""Gives up on plans whose gateway goes down each time that they are gone on with."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CallNext, Failure, Outcome, Run, Status, Task, Workflow
from pml_kit.cleanup import finish_despite_cancel
from pml_kit.identifiers import time_of
from pml_kit.shared.change import Write, change

if TYPE_CHECKING:
    from pml_hookspecs import Document, ExecutionId, Store

ATTEMPTS = "core.attempts"
"""Collection of documents: the attempts to go on with an execution that have not come to an end."""
FIRST_S = 1.0
"""So young an execution is not gone on with but begun [s]: nobody finds out sooner that a gateway is gone."""
KEPT_S = 90 * 86_400.0
ELSEWHERE = "execution.elsewhere"
"""Code of the failure that says that another gateway runs this very execution, as the contract of executors has it."""


class Attempt:
    """One gateway's attempt to go on with an execution."""

    __slots__ = ("is_over", "layers", "mark")

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex
        self.layers = 0
        """How many know of it at a time: the executor of durable work finds what was left as well."""
        self.is_over = False
        """Whether it came to its end here."""


class ResumeLimit:
    """Counts how often durable work was gone on with and its gateway went down.

    What is cancelled, or left to the next gateway by one that ends in good order, does not count.
    """

    def __init__(self, store: Store, most: int, log: Any) -> None:
        """``most`` attempts are made."""
        self._store, self._most, self._log = store, most, log
        self._here: dict[ExecutionId, Attempt] = {}

    def count(self, task: Workflow, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        """Let durable work pass, or say that it is given up."""
        age = datetime.now(UTC) - time_of(run.id)
        if run.parent is not None or run.dry_run or age < timedelta(seconds=FIRST_S):
            return call_next(task, run)
        return self._counted(task, run, call_next)

    async def _counted(self, task: Task, run: Run, call_next: CallNext) -> Outcome:
        attempt = self._here.get(run.id)
        if attempt is None:
            attempt = self._here[run.id] = Attempt()
            if (failed := await self._begin(run.id, attempt)) is not None:
                del self._here[run.id]
                now = datetime.now(UTC)
                return Outcome(task_id=task.id, status=Status.ERROR, started_at=now, duration_ms=0, failure=failed)
        attempt.layers += 1
        try:
            outcome = await call_next(task, run)
            attempt.is_over |= outcome.failure is None or outcome.failure.code != ELSEWHERE
            return outcome
        finally:
            attempt.layers -= 1
            if not attempt.layers and self._here.get(run.id) is attempt:
                del self._here[run.id]
                await finish_despite_cancel(self._end(run.id, attempt), name="end of an attempt")

    async def _begin(self, id: ExecutionId, attempt: Attempt) -> Failure | None:
        """Note the attempt before it is made; why it is not made."""
        try:
            before = await self._change(id, add=attempt.mark)
            if len(before) < self._most:
                return None
            await self._store.documents.delete(ATTEMPTS, id)
        except Exception as exc:  # what cannot be counted is done all the same
            self._log.warning("it cannot be counted how often a plan is gone on with", execution=id, problem=str(exc))
            return None
        self._log.error("a plan is given up", execution=id, attempts=len(before))
        return _given_up(len(before))

    async def _end(self, id: ExecutionId, attempt: Attempt) -> None:
        try:
            if attempt.is_over:
                await self._store.documents.delete(ATTEMPTS, id)
            else:
                await self._change(id, take=attempt.mark)
        except Exception as exc:
            self._log.warning("a plan counts as gone on with in vain", execution=id, problem=str(exc))

    async def _change(self, id: ExecutionId, *, add: str = "", take: str = "") -> Sequence[str]:
        """Add an attempt, or take it back; those that there were before."""

        def edit(document: Document | None) -> tuple[list[str], Write]:
            before: list[str] = [] if document is None else list(document.value["begun"])
            begun = [one for one in before if one != take] + ([add] if add else [])
            return before, Write({"begun": begun}, keep_s=KEPT_S)

        return await change(self._store.documents, ATTEMPTS, id, edit)


def _given_up(times: int) -> Failure:
    message = (
        f"It was gone on with {times} times after its gateway went down, and each time the gateway went down again; it "
        "is not tried any more. See what it does to the gateway before you begin it again (max_resumes in [gateway])."
    )
    return Failure("execution.given_up", message, details={"attempts": times})
