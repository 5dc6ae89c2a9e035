"""The wrapper that has a human look first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pml_hookspecs import CannotAskError, Failure, Outcome, Phase, RpcError, Status, replace
from pml_kit.offers import FLOWS

from .policy import Policy
from .requests import Answer, Request, Requests
from .subject import Subject, subject_of

if TYPE_CHECKING:
    from pml_hookspecs import CallNext, Run, Services, Task

    from .settings import Settings

Said: TypeAlias = Answer | Literal["elsewhere", "pending"]
"""What the client's human says, that somebody else was faster, or that nobody answers."""
FORM = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "title": "Approve", "description": "Run it, this once"}},
    "required": ["approve"],
}


class Approvals:
    """Holds a task back until a human has approved exactly this one.

    An approval that is kept is spent; else a request is kept, and whoever answers first decides: the client's human, if
    it can ask one, or somebody at whichever gateway. What nobody answers in time ends with an outcome that says that it
    waits. An approval is bound to the digest of tool, definition and arguments and good once.
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
        flows = self._services.find(FLOWS)
        subject = subject_of(task, self._services.catalog, () if flows is None else flows.of(run.id))
        waiting: Request | None = None
        for known in await self._requests.of(subject.digest, run.session.principal):
            if known.state in ("approved", "denied") and await self._requests.use(known):
                return await self._ended(task, run, call_next, known)
            if known.state == "pending":
                waiting = known
        request = waiting or await self._requests.ask(subject, run)
        match await self._said(subject, run, request, asked_before=waiting is not None):
            case "elsewhere":
                return await self._held(task, run, call_next)
            case "pending":
                return _waiting(task, subject, request)
            case said:
                return await self._ended(task, run, call_next, replace(request, state=said))

    async def _ended(self, task: Task, run: Run, call_next: CallNext, answered: Request) -> Outcome:
        if answered.state == "denied":
            return _denied(task, answered.value.get("reason", ""))
        return await call_next(approved(task), run)

    async def _said(self, subject: Subject, run: Run, request: Request, *, asked_before: bool) -> Said:
        """What is said first: by the client's human, or elsewhere."""
        elsewhere = asyncio.ensure_future(self._requests.answered(request))
        client = asyncio.ensure_future(self._said_by_client(subject, run))
        try:
            await asyncio.wait((elsewhere, client), return_when=asyncio.FIRST_COMPLETED)
            if elsewhere.done():
                elsewhere.result()
                return "elsewhere"
            if (yes := client.result()) is None:
                return await self._said_elsewhere(elsewhere, run, asked_before=asked_before)
            answer: Answer = "approved" if yes else "denied"
            if await self._requests.answer(request, answer, by="client", used=True):
                return answer
            return answer if await self._requests.get(request.id) is None else "elsewhere"
        finally:
            elsewhere.cancel()
            client.cancel()
            await asyncio.gather(elsewhere, client, return_exceptions=True)

    async def _said_elsewhere(self, answered: asyncio.Future[Any], run: Run, *, asked_before: bool) -> Said:
        if not asked_before and not await self._requests.somebody_looks():
            return "pending"
        with run.question():
            await asyncio.wait((answered,), timeout=self._settings.wait_s)
        return "elsewhere" if answered.done() else "pending"

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


def approved(task: Task) -> Task:
    """``task`` without the wish for an approval, which it has."""
    return replace(task, step=replace(task.step, approve=False)) if task.step.approve else task


def _waiting(task: Task, subject: Subject, request: Request) -> Outcome:
    message = (
        f"{subject.named} waits for a human: pml approvals approve {request.id} (or deny), or pml console. Send the "
        "same again, or continue the workflow, to wait for the answer."
    )
    told = ("target", "request", "flows")
    details = {"approval_id": request.id, **{name: request.value[name] for name in told if name in request.value}}
    return _finished_outcome(
        task, Status.INPUT_REQUIRED, Failure("approval.required", message, retryable=True, details=details)
    )


def _denied(task: Task, reason: str) -> Outcome:
    message = f"A human refused it: {reason}" if reason else "A human refused it."
    return _finished_outcome(task, Status.DENIED, Failure("approval.denied", message))


def _finished_outcome(task: Task, status: Status, failure: Failure) -> Outcome:
    return Outcome(task_id=task.id, status=status, started_at=datetime.now(UTC), duration_ms=0, failure=failure)
