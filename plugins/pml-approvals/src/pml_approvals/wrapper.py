"""The wrapper that has a human look first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CannotAskError, Failure, Outcome, Phase, RpcError, Status, replace

from .policy import Policy
from .requests import Request, Requests
from .subject import Subject, subject_of

if TYPE_CHECKING:
    from pml_hookspecs import CallNext, Run, Services, Task

    from .settings import Settings

FORM = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "title": "Approve", "description": "Run it, this once"}},
    "required": ["approve"],
}


class Approvals:
    """Holds a task back until a human has approved exactly this one.

    An approval that is kept is spent; else the client asks its human, if it can; else a request is kept, and the
    outcome says that it waits. An approval is bound to the digest of tool, definition and arguments and good once.
    """

    phase = Phase.APPROVE

    def __init__(self, services: Services, settings: Settings) -> None:
        self._services, self._settings = services, settings
        self._policy = Policy(settings, services.catalog)
        self._requests = Requests(services, settings)

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        """Let pass what needs no approval."""
        if not self._policy.why(task, indirect=run.indirect):
            return call_next(task, run)
        return self._held(task, run, call_next)

    async def would_ask(self, task: Task, above: Run) -> str:
        """Why a human has to look at ``task`` first, unless one has approved exactly this already."""
        why = self._policy.why(task, indirect=True)
        if not why:
            return ""
        subject = subject_of(task, self._services.catalog)
        known = await self._requests.of(subject.digest, above.session.principal)
        answered = next((one.state for one in known if one.state in ("approved", "denied")), None)
        if answered is not None:
            return "" if answered == "approved" else "a human has refused exactly this"
        waiting = next((one.id for one in known if one.state == "pending"), None)
        return why if waiting is None else f"{why}; pml approvals approve {waiting}"

    async def _held(self, task: Task, run: Run, call_next: CallNext) -> Outcome:
        subject = subject_of(task, self._services.catalog)
        pending: Request | None = None
        for known in await self._requests.of(subject.digest, run.session.principal):
            if known.state == "approved" and await self._requests.use(known):
                return await call_next(approved(task), run)
            if known.state == "denied" and await self._requests.use(known):
                return _denied(task, known.value.get("reason", ""))
            if known.state == "pending":
                pending = known
        try:
            said = await self._said_by_client(subject, run)
        except asyncio.CancelledError:
            # The clock ran out while the human was thinking: what was asked can still be answered by command.
            if pending is None:
                self._requests.ask_soon(subject, run)
            raise
        if said is None:
            pending = pending or await self._requests.ask(subject, run)
            return _waiting(task, subject, pending)
        await self._settle(subject, run, pending)
        return await call_next(approved(task), run) if said else _denied(task, "")

    async def _said_by_client(self, subject: Subject, run: Run) -> bool | None:
        """What the human behind the client says; None when nobody can be asked, or gave no answer."""
        if not self._settings.ask_client:
            return None
        message = subject.question(self._services.redact(subject.request))
        if run.intent:
            message += f"\nIt is part of: {self._services.redact(run.intent)}"
        try:
            answer = await run.ask("elicitation/create", {"message": message, "requestedSchema": FORM})
        except (CannotAskError, RpcError):
            return None
        content: Any = answer.get("content")
        if answer.get("action") == "cancel":
            return None
        return answer.get("action") == "accept" and isinstance(content, dict) and content.get("approve") is True

    async def _settle(self, subject: Subject, run: Run, pending: Request | None) -> None:
        """Keep that a human answered, whatever it was; a request that waited is answered by it."""
        if pending is None:
            await self._requests.ask(subject, run, state="used", by="client")
        else:
            await self._requests.answer(pending, "used", by="client")


def approved(task: Task) -> Task:
    """``task`` without the wish for an approval, which it has."""
    return replace(task, step=replace(task.step, approve=False)) if task.step.approve else task


def _waiting(task: Task, subject: Subject, request: Request) -> Outcome:
    message = (
        f"{subject.named} waits for a human: pml approvals approve {request.id} (or deny). Then send the same again, "
        "or continue the workflow."
    )
    details = {"approval_id": request.id, "target": request.value["target"], "request": request.value["request"]}
    return _finished_outcome(
        task, Status.INPUT_REQUIRED, Failure("approval.required", message, retryable=True, details=details)
    )


def _denied(task: Task, reason: str) -> Outcome:
    message = f"A human refused it: {reason}" if reason else "A human refused it."
    return _finished_outcome(task, Status.DENIED, Failure("approval.denied", message))


def _finished_outcome(task: Task, status: Status, failure: Failure) -> Outcome:
    return Outcome(task_id=task.id, status=status, started_at=datetime.now(UTC), duration_ms=0, failure=failure)
