"""The tool by which somebody who may can answer requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments

from .requests import Requests
from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Run, Services

    from .requests import Answer, Request

SCOPE = "approve"
"""Without it nobody answers by tool: an agent must not approve what it asks for itself."""
NONE_SUCH = "there is no such request"
MOST_LISTED = 1000
DEFINITION: Mapping[str, Any] = {
    "name": "answer_approval",
    "description": "Approve or deny a task that waits for a human. Needs a key with the scope 'approve'.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "approval_id": {"type": "string"},
            "approve": {"type": "boolean"},
            "reason": {"type": "string"},
        },
        "required": ["approval_id", "approve"],
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True},
}

LIST_DEFINITION: Mapping[str, Any] = {
    "name": "list_approvals",
    "description": "List tasks that wait for a human's answer. Needs a key with the scope 'approve'.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST_LISTED, "default": 50},
            "details": {
                "type": "boolean",
                "default": True,
                "description": "Also the arguments, and what of the same target was approved before.",
            },
        },
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": True},
}


class ListApprovals:
    """Says what waits."""

    def __init__(self, services: Services) -> None:
        self._requests = Requests(services, services.settings or Settings())

    async def __call__(self, arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
        """``{"approvals": [...]}``, the newest first, each as it is kept, secrets taken out, with ``approval_id``.

        With ``details`` each has ``flows``, what untrusted servers decide, and ``before``: ``request``,
        ``answered_at`` and ``answered_by`` of what the same principal was last approved of the same target; None for
        the first time. Whoever calls it is known to look: for half a minute, calls wait for the answer.

        Raises:
            InvalidArguments: The caller may not, or an argument is not as it must be.
        """
        if SCOPE not in run.session.scopes:
            raise InvalidArguments("list_approvals: this key lacks the scope 'approve'; pml approvals list shows them")
        limit = arguments.get("limit", 50)
        if type(limit) is not int or not 1 <= limit <= MOST_LISTED:
            raise InvalidArguments(f"list_approvals: limit must be 1 to {MOST_LISTED}")
        details = arguments.get("details", True)
        if not isinstance(details, bool):
            raise InvalidArguments("list_approvals: details must be true or false")
        self._requests.look()
        found = await self._requests.all("pending", limit)
        return {"approvals": [await self._shown(one, details=details) for one in found]}

    async def _shown(self, one: Request, *, details: bool) -> Mapping[str, Any]:
        names = (
            "kind",
            "target",
            "intent",
            "execution_id",
            "agent",
            "requested_at",
            *(("request",) if details else ()),
        )
        shown = {"approval_id": one.id, "principal": one.principal, **{name: one.value.get(name) for name in names}}
        if not details:
            return shown
        shown["flows"] = one.value.get("flows", [])
        before = await self._requests.before(one)
        told = ("request", "answered_at", "answered_by")
        return {**shown, "before": None if before is None else {name: before.value.get(name) for name in told}}


class AnswerApproval:
    """Answers one request."""

    def __init__(self, services: Services) -> None:
        self._requests = Requests(services, services.settings or Settings())

    async def __call__(self, arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
        """``{"approval_id", "state"}``.

        Raises:
            InvalidArguments: The caller may not, or there is nothing to answer.
        """
        if SCOPE not in run.session.scopes:
            raise InvalidArguments(
                "answer_approval: this key lacks the scope 'approve'; a human answers with pml approvals"
            )
        id, approve, reason = arguments.get("approval_id"), arguments.get("approve"), arguments.get("reason", "")
        if not isinstance(id, str) or not isinstance(approve, bool) or not isinstance(reason, str):
            raise InvalidArguments("answer_approval: give approval_id (text) and approve (true or false)")
        request = await self._requests.get(id)
        if request is None or request.state != "pending":
            state = NONE_SUCH if request is None else f"it is {request.state}"
            raise InvalidArguments(f"answer_approval: {id}: {state}")
        answer: Answer = "approved" if approve else "denied"
        if not await self._requests.answer(request, answer, by=run.session.principal, reason=reason):
            raise InvalidArguments(f"answer_approval: {id}: somebody else answered at the same time")
        return {"approval_id": id, "state": answer}
