"""What waits for a human, and the human's answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from starlette.responses import RedirectResponse

from pml_console.history import plain
from pml_console.templates import pretty
from pml_hookspecs import CapabilityRun, CodeRun, RunOptions, ToolCall, ToolId, Workflow
from pml_kit.plain import task_from

from .comparison import MOST_CHANGES, changes, visible

if TYPE_CHECKING:
    from starlette.responses import Response

    from pml_console.visit import Visit
    from pml_hookspecs import Task

SEE_OTHER, NOT_FOUND = 303, 404
MOST_SHOWN, MOST_COUNTED = 20, 100
LONGEST = 20_000
"""Characters of arguments that are shown."""
LONGEST_WORD = 500
"""Characters of a name or an intent that are shown."""
LONGEST_TITLE = 80
REHEARSAL_S = 20.0
LABEL = "pml/simulated"
LABELS = {"source": "The answer is", "effect": "It would change", "notes": "Notes", "warnings": "Warnings"}
SOURCES = {
    "recorded": "what the same call really answered before",
    "example": "what it answered to other arguments",
    "schema": "made up by its schema",
    "inferred": "made up by what it answered before",
    "placeholder": "unknown: it never ran and says nothing of its answers",
    "journal": "what an earlier step would have made of it",
}
"""Where a rehearsed answer comes from, in words."""
GONE = "This request does not wait any more: it was answered, or has expired."


async def requests_of(visit: Visit, *, details: bool = False, limit: int = MOST_COUNTED) -> Sequence[Mapping[str, Any]]:
    """Requests that wait, the newest first: whoever asks for them holds a call open, and not for long.

    Args:
        visit: Who looks.
        details: Also the arguments, and what was approved before.
        limit: Most of them.

    Raises:
        RefusedError: This reader may not answer any.
    """
    arguments = {"limit": limit, "details": details}
    found: Sequence[Mapping[str, Any]] = (await visit.history.call("list_approvals", arguments))["approvals"]
    return found


async def summary(visit: Visit) -> Sequence[Mapping[str, str]]:
    """What waits, in a few words each, for every page's badge and for the desktop; the newest first."""
    return [
        {
            "id": one["approval_id"],
            "what": visible((one["target"] or one["kind"])[:LONGEST_TITLE]),
            "who": visible(str(one["agent"] or one["principal"])[:LONGEST_TITLE]),
        }
        for one in await requests_of(visit)
    ]


async def waiting(visit: Visit) -> Response:
    """All of them."""
    return await _page(visit)


async def answer(visit: Visit) -> Response:
    """Approve one once, deny it with a word to whoever asked, or see what a rehearsal says that it would do."""
    id = visit.request.path_params["id"]
    if visit.form.get("answer") == "rehearse":
        return await _page(visit, rehearse=id)
    arguments: dict[str, Any] = {"approval_id": id, "approve": visit.form.get("answer") == "approve"}
    if reason := visit.form.get("reason", "").strip():
        arguments["reason"] = reason
    await visit.history.call("answer_approval", arguments)
    return RedirectResponse("/console/approvals#next", SEE_OTHER)


async def _page(visit: Visit, *, rehearse: str = "") -> Response:
    found = plain(await requests_of(visit, details=True, limit=MOST_SHOWN + 1))
    shown = [_shown(one) for one in found[:MOST_SHOWN]]
    if rehearse:
        index = next((i for i, one in enumerate(shown) if one["id"] == rehearse), None)
        if index is None:
            return visit.page("problem.html", NOT_FOUND, problem=GONE)
        shown[index]["rehearsal"] = await _rehearsal(visit, found[index])
    return visit.page("approvals.html", requests=shown, more=len(found) > MOST_SHOWN)


def _shown(request: Mapping[str, Any]) -> dict[str, Any]:
    """A request as the page has it: texts of a bounded length, in which nothing hides."""
    text = json.dumps(request["request"], indent=2, ensure_ascii=False)
    before = request["before"]
    words = {
        name: visible(str(request[name] or "")[:LONGEST_WORD])
        for name in ("kind", "target", "principal", "agent", "intent")
    }
    compared = None if before is None else changes(before["request"], request["request"])
    return {
        **words,
        "id": request["approval_id"],
        "requested_at": request["requested_at"],
        "execution_id": request["execution_id"],
        "arguments": visible(text[:LONGEST]),
        "left": max(0, len(text) - LONGEST),
        "flows": [visible(line) for line in request.get("flows", ())],
        "before": before,
        "changes": compared,
        "more_changes": compared is not None and len(compared) == MOST_CHANGES,
        "rehearsal": None,
    }


async def _rehearsal(visit: Visit, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a rehearsal of it says, run for whoever looks, with what they may call; nothing reaches a server."""
    task = _task(request)
    if task is None:
        return {"problem": "What it stands for cannot be rehearsed.", "label": (), "text": ""}
    options = RunOptions(trigger="manual", dry_run=True)
    try:
        async with asyncio.timeout(REHEARSAL_S):
            outcome = await visit.site.services.run(task, visit.session, options)
    except TimeoutError:
        return {"problem": f"The rehearsal took longer than {REHEARSAL_S:.0f} s.", "label": (), "text": ""}
    problem = "" if outcome.failure is None else visible(outcome.failure.message[:LONGEST_WORD])
    output, meta = plain(outcome.output), plain(outcome.meta)
    told = output.pop("_meta", None) if isinstance(output, dict) else None
    label = (meta or {}).get(LABEL) or (told or {}).get(LABEL) or {}
    said = {**label, "source": SOURCES.get(label.get("source", ""), "")}
    words = [(words, visible(pretty(said[name]))) for name, words in LABELS.items() if said.get(name)]
    return {"problem": problem, "label": words, "text": "" if output is None else visible(pretty(output))}


def _task(request: Mapping[str, Any]) -> Task | None:
    """What was asked for, secrets taken out; None where that cannot be told from the request."""
    target, given = request["target"], request["request"]
    try:
        match request["kind"]:
            case "tool":
                return ToolCall(id="call", tool=ToolId(target), arguments=given)
            case "code":
                return CodeRun(id="code", language=target, **given)
            case "capability":
                return CapabilityRun(id="capability", capability_id=target, **given)
            case "workflow":
                return Workflow(id="plan", tasks=tuple(task_from(task) for task in given["tasks"]))
    except (KeyError, TypeError, ValueError):
        return None
    return None
