"""What waits for a human, and the human's answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from starlette.responses import RedirectResponse

if TYPE_CHECKING:
    from starlette.responses import Response

    from pml_console.visit import Visit

SEE_OTHER = 303


async def requests_of(visit: Visit) -> Sequence[Mapping[str, Any]]:
    """Requests that wait, the newest first.

    Raises:
        RefusedError: This reader may not answer any.
    """
    found: Sequence[Mapping[str, Any]] = (await visit.history.call("list_approvals", {}))["approvals"]
    return found


async def waiting(visit: Visit) -> Response:
    """All of them."""
    return visit.page("approvals.html", requests=await requests_of(visit))


async def answer(visit: Visit) -> Response:
    """Approve one once, or deny it with a word to whoever asked."""
    arguments: dict[str, Any] = {
        "approval_id": visit.request.path_params["id"],
        "approve": visit.form.get("answer") == "approve",
    }
    if reason := visit.form.get("reason", "").strip():
        arguments["reason"] = reason
    await visit.history.call("answer_approval", arguments)
    return RedirectResponse("/console/approvals", SEE_OTHER)
