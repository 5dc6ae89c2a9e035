"""One execution: its plan, what ran inside, what was asked and answered, and taking it elsewhere."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from starlette.responses import Response

from pml_console.history import plain
from pml_console.pictures.plan_graph import graph_of
from pml_console.pictures.timeline import bars_of, span_s
from pml_console.plans.plan_text import PlanTextError, text_of
from pml_hookspecs import encode

if TYPE_CHECKING:
    from pml_console.visit import Visit
    from pml_hookspecs import ExecutionRecord

NOT_FOUND = 404
NO_SUCH = "There is no such execution, or it is not yours to read. History is kept for as long as [history] says."
LONGEST_PLAN = 30_000
"""Characters of a plan that a form sends along; in its encoding they can be three times as many bytes."""


async def execution(visit: Visit) -> Response:
    """One execution: its plan as a graph, what ran inside as bars, what was asked and answered."""
    record = await visit.history.record(visit.request.path_params["id"])
    if record is None:
        return visit.page("problem.html", NOT_FOUND, problem=NO_SUCH)
    inside = await visit.history.inside(record.id)
    response, now = plain(record.response), datetime.now(UTC)
    return visit.page(
        "execution.html",
        record=record,
        request=plain(record.request),
        response=response,
        graph=graph_of(record.request, response),
        bars=bars_of(record, inside.items, now),
        span_s=span_s(record, inside.items, now),
        inside_left_out=inside.total - len(inside.items),
        running=record.duration_ms is None,
        plan=_plan(record),
    )


def _plan(record: ExecutionRecord) -> str:
    """What the form that rehearses it again sends; ``""`` where there is none."""
    try:
        text = text_of(record)
    except PlanTextError:
        return ""
    return text if len(text) <= LONGEST_PLAN else ""


async def export(visit: Visit) -> Response:
    """One execution as a file: what ``get_execution_result`` answers, with the transcript."""
    record = await visit.history.look(visit.request.path_params["id"])
    if record is None:
        return visit.page("problem.html", NOT_FOUND, problem=NO_SUCH)
    arguments = {"agent_name": record.agent, "execution_id": record.id, "include_transcript": True}
    found = await visit.history.call("get_execution_result", arguments)
    name = re.sub(r"[^A-Za-z0-9-]", "-", record.id)[:64]
    headers = {"content-disposition": f'attachment; filename="execution-{name}.json"'}
    return Response(encode(found), headers=headers, media_type="application/json")
