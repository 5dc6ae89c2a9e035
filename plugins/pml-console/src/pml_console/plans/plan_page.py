"""A plan as text: rehearsed with what the pre-flight finds beside it, and then run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from starlette.responses import RedirectResponse

from pml_console.history import RefusedError, plain
from pml_console.pictures.plan_graph import graph_of
from pml_hookspecs import GATEWAY_SERVER, RunOptions, ToolCall, ToolId

from .plan_text import PlanTextError, arguments_of, line_of, text_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from pml_console.visit import Visit
    from pml_hookspecs import ExecutionRecord

NOT_FOUND, BAD_REQUEST, SEE_OTHER = 404, 400, 303
NO_SUCH = "There is no such execution, or it is not yours to read."
TOOL = ToolId(f"{GATEWAY_SERVER}:execute_workflow")
NOTHING_RAN = ("plan.changed", "arguments.invalid", "workflow.invalid")
"""Codes of plans that were refused before their first task: they are mended here."""
REFUSED_S, LOOK_S = 2.0, 0.05
"""How long a plan that was begun is looked at, for whether it is refused, and how often [s]."""
EXAMPLE = """\
{
  "intent": "what it is for",
  "workflow": {
    "tasks": [
      {"id": "first", "tool": "server:tool", "arguments": {}},
      {"id": "second", "tool": "server:tool", "arguments": {"text": "{{first}}"}}
    ]
  }
}"""
COPIED = (
    "Copied from an execution: tasks, arguments and order. Conditions, repetitions, retries and what undoes a task "
    "are not in the history, and secrets were taken out of it."
)


async def plan(visit: Visit) -> Response:
    """The form, with what an execution was asked if one is named."""
    id = visit.request.query_params.get("execution", "")
    if not id:
        return _page(visit, EXAMPLE)
    record = await visit.history.record(id)
    if record is None:
        return visit.page("problem.html", NOT_FOUND, problem=NO_SUCH)
    try:
        return _page(visit, text_of(record), note=COPIED)
    except PlanTextError as exc:
        return _page(visit, EXAMPLE, BAD_REQUEST, problem=str(exc))


async def attempt(visit: Visit) -> Response:
    """Rehearse a plan, or run it, as the reader: approvals, limits and policies hold as for everybody."""
    text = visit.form.get("plan", "").replace("\r\n", "\n")
    try:
        arguments = arguments_of(text)
    except PlanTextError as exc:
        return _page(visit, text, BAD_REQUEST, problem=str(exc), line=exc.line)
    digest = visit.form.get("plan_digest", "")
    if visit.form.get("how") == "run":
        if not digest:
            return _page(visit, text, BAD_REQUEST, problem="Rehearse the plan before you run it.")
        return await _run(visit, text, {**arguments, "plan_digest": digest})
    return await _rehearsed(visit, text, arguments)


async def _rehearsed(visit: Visit, text: str, arguments: Mapping[str, Any]) -> Response:
    task = ToolCall(id="plan", tool=TOOL, arguments=arguments)
    outcome = await visit.site.services.run(task, visit.session, RunOptions(trigger="manual", dry_run=True))
    answer = plain(outcome.output)
    told = answer if isinstance(answer, Mapping) else {}
    report = told.get("preflight")
    return _page(
        visit,
        text,
        rehearsed=True,
        problem="" if outcome.failure is None else outcome.failure.message,
        report=report if isinstance(report, Mapping) else None,
        findings=_findings(report, text),
        graph=graph_of(arguments.get("workflow") or {}, told),
        answer={name: value for name, value in told.items() if name not in ("preflight", "plan_digest", "how")},
        digest=told.get("plan_digest", ""),
    )


async def _run(visit: Visit, text: str, arguments: Mapping[str, Any]) -> Response:
    """Begin it, and go on where it is shown; one that is refused is shown as it was written."""
    task = ToolCall(id="plan", tool=TOOL, arguments=arguments)
    options = RunOptions(trigger="manual", dry_run=False)
    id = await visit.site.services.start(task, visit.session, options)
    record = await _ended(visit, id)
    if record is not None and record.failure is not None and record.failure.code in NOTHING_RAN:
        return _page(visit, text, BAD_REQUEST, problem=record.failure.message)
    return RedirectResponse(f"/console/executions/{id}", SEE_OTHER)


async def _ended(visit: Visit, id: str) -> ExecutionRecord | None:
    """What has ended within :data:`REFUSED_S`; None for what goes on, or that the reader may not read."""
    for _ in range(round(REFUSED_S / LOOK_S)):
        try:
            record = await visit.history.look(id)
        except RefusedError:
            return None
        if record is not None and record.duration_ms is not None:
            return record
        await asyncio.sleep(LOOK_S)
    return None


def _findings(report: Any, text: str) -> Sequence[Mapping[str, Any]]:
    """What the pre-flight found, the worst first, with the line of the text where the task stands."""
    about: Mapping[str, Any] = report if isinstance(report, Mapping) else {}
    return [
        {"level": level, "task": "", "at": "", **found, "in_text": line_of(text, found.get("task", ""))}
        for level, name in (("error", "errors"), ("warning", "warnings"), ("note", "notes"))
        for found in about.get(name) or ()
    ]


def _page(visit: Visit, text: str, status: int = 200, **values: Any) -> Response:
    shown = {
        "problem": "", "line": "", "note": "", "rehearsed": False, "report": None, "findings": (), "graph": None,
        "answer": None, "digest": "",
    }  # fmt: skip
    return visit.page("plans.html", status, text=text, **{**shown, **values})
