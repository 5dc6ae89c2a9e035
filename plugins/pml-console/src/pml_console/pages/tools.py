"""The catalog as agents see it, and trying a tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from starlette.responses import RedirectResponse

from pml_clients.configuration.server_changes import tool_switched
from pml_console.history import RefusedError, plain
from pml_console.tool_reasons import held_of, keys_of, listings_of, scores_of
from pml_console.visit import Visit
from pml_hookspecs import InvalidArguments, RunOptions, ToolCall, ToolId, split_tool_id
from pml_kit.mcp.effects import effects_of_tool
from pml_kit.mcp.tool_schemas import input_schema
from pml_kit.offers import REVIEW, VIEWS, MissingScopeError, required

from .forms import FieldError, arguments_of, fields_of
from .servers import check_may_operate, may_operate, write, written

if TYPE_CHECKING:
    from starlette.responses import Response

    from pml_hookspecs import CatalogEntry

NOT_FOUND, BAD_REQUEST, SEE_OTHER = 404, 400, 303
DONE = {
    "off": "It is switched off: within seconds nobody can have it of any running gateway with this configuration.",
    "on": "It is switched on: within seconds running gateways with this configuration have it again.",
}
ACCEPT, ACCEPTED = "accept", "accepted"
TAKEN = "is taken as it is now: within seconds every gateway that goes by the same lock has it so."
MOST_FOUND, MOST_LISTED = 50, 500
NO_SUCH = "There is no such tool, or it is not yours to call."


async def tools(visit: Visit) -> Response:
    """All tools that the reader may call, or those that a search finds, with their scores."""
    catalog = visit.site.services.catalog
    query = visit.request.query_params.get("query", "").strip()
    scores: Mapping[str, float] = {}
    explained: Mapping[ToolId, Sequence[str]] = {}
    if query:
        found = await catalog.search(query, limit=MOST_FOUND, session=visit.session)
        explained = await scores_of(visit, query, MOST_FOUND)
        scores = {match.id: match.score for match in found}
        entries = [entry for id in scores if (entry := catalog.get(ToolId(id))) is not None]
    else:
        entries = sorted((entry for entry in catalog if catalog.allows(entry, visit.session)), key=lambda one: one.id)
    listed, held = await _listed(visit), held_of(visit)
    return visit.page(
        "tools.html",
        query=query,
        held=[] if query else held,
        notice=_taken(visit),
        total=len(entries),
        rows=[
            {
                "entry": entry,
                "effects": effects_of_tool(entry.definition),
                "held": [reason for one in held if one.tool == entry.id for reason in one.reasons],
                "listed": [endpoint for endpoint, ids in listed.items() if entry.id in ids],
                "score": scores.get(entry.id),
                "made_of": explained.get(entry.id, ()),
            }
            for entry in entries[:MOST_LISTED]
        ],
        withheld=[] if query else _withheld(visit),
    )


def _taken(visit: Visit) -> str:
    """What was taken by the form that led here; ``""`` for nothing."""
    given = visit.request.query_params
    known = visit.site.services.catalog.get(ToolId(given.get(ACCEPTED, "")))
    return "" if known is None or not visit.operates else f"{known.id} {TAKEN}"


def _withheld(visit: Visit) -> Sequence[tuple[ToolId, str]]:
    """What an operator may not have either, and why; nothing for others, who need not know of it."""
    catalog, views = visit.site.services.catalog, required(visit.site.services, VIEWS)
    if not visit.sees_everything:
        return []
    dropped = (entry.id for entry in catalog if not catalog.allows(entry, visit.session))
    return [(id, views.refusal(id, visit.session)) for id in sorted(dropped)[:MOST_LISTED]]


async def _listed(visit: Visit) -> Mapping[str, frozenset[str]]:
    """Which tools a local client of each endpoint is shown before it searches."""
    views = required(visit.site.services, VIEWS)
    return {
        f"{view.endpoint} ({view.mode})": frozenset(
            entry.id for entry in await views.listed(view.mode, intent=view.intent)
        )
        for view in views.endpoints()
    }


async def tool(visit: Visit) -> Response:
    """One tool: what it says of itself, and a form to try it."""
    entry = _entry(visit, withheld=visit.sees_everything or visit.operates)
    if entry is None:
        return visit.page("problem.html", NOT_FOUND, problem=NO_SUCH)
    return await _page(visit, entry, notice=DONE.get(visit.request.query_params.get("done", ""), ""))


async def attempt(visit: Visit) -> Response:
    """Rehearse a call, or make it, as the reader: approvals, limits and policies hold as for everybody.

    Or switch the tool off or on, or take it as its server defines it now, as an operator.
    """
    if visit.form.get("how") == ACCEPT:
        return await _accepted(visit)
    if visit.form.get("how") in DONE:
        return await _switched(visit, visit.form["how"])
    entry = _entry(visit)
    if entry is None:
        return visit.page("problem.html", NOT_FOUND, problem=NO_SUCH)
    try:
        arguments = arguments_of(fields_of(input_schema(entry), visit.form))
    except FieldError as exc:
        return await _page(visit, entry, BAD_REQUEST, problem=str(exc))
    rehearsal = visit.form.get("how") != "run"
    task = ToolCall(id="call", tool=entry.id, arguments=arguments)
    options = RunOptions(trigger="manual", dry_run=rehearsal)
    outcome = await visit.site.services.run(task, visit.session, options)
    problem = "" if outcome.failure is None else outcome.failure.message
    return await _page(visit, entry, problem=problem, answer=plain(outcome.output), rehearsal=rehearsal)


async def _accepted(visit: Visit) -> Response:
    id = ToolId(visit.request.path_params["id"])
    try:
        await required(visit.site.services, REVIEW).accept(visit.session, id, visit.form.get("digest", ""))
    except (InvalidArguments, MissingScopeError) as exc:
        raise RefusedError(str(exc)) from None
    return RedirectResponse(f"/console/tools?{urlencode({ACCEPTED: id})}", SEE_OTHER)


async def _switched(visit: Visit, how: str) -> Response:
    id = ToolId(visit.request.path_params["id"])
    target = f"tool {id}"
    await check_may_operate(visit, target)
    server, tool = split_tool_id(id)
    await written(
        visit, target, f"tools.switched_{how}", {"tool": id},
        lambda files: write(tool_switched(server, tool, files, enabled=how == "on")),
    )  # fmt: skip
    return RedirectResponse(f"/console/tools/{quote(id)}?done={how}", SEE_OTHER)


def _switch_of(visit: Visit, entry: CatalogEntry) -> str:
    """``on`` or ``off``, as the tool's server has it off or on; ``""`` where the reader may not switch it."""
    if entry.own or not may_operate(visit):
        return ""
    refusal = required(visit.site.services, VIEWS).refusal(entry.id, visit.session)
    return "on" if refusal.startswith(f"[servers.{entry.server}] tools") else "off"


def _entry(visit: Visit, *, withheld: bool = False) -> CatalogEntry | None:
    """The tool that is meant, if the reader may have it, or ``withheld`` says that it need not."""
    catalog = visit.site.services.catalog
    entry = catalog.get(ToolId(visit.request.path_params["id"]))
    return entry if entry is not None and (withheld or catalog.allows(entry, visit.session)) else None


async def _page(visit: Visit, entry: CatalogEntry, status: int = 200, **values: Any) -> Response:
    shown = {
        "problem": "",
        "notice": "",
        "answer": None,
        "rehearsal": False,
        "switch": _switch_of(visit, entry),
        "listings": await listings_of(visit.site.services, entry.id),
        "keys": await keys_of(visit, entry.id),
        "held": [one for one in held_of(visit) if one.tool == entry.id],
        "may_call": visit.site.services.catalog.allows(entry, visit.session),
        **values,
    }
    fields = fields_of(input_schema(entry), visit.form)
    definition = plain(entry.definition)
    effects = effects_of_tool(entry.definition)
    return visit.page("tool.html", status, entry=entry, fields=fields, definition=definition, effects=effects, **shown)
