"""PML hook plugin ``tool_feedback``: agents report tools that misbehave; ``pml feedback`` shows the reports."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments, MetaTool, hookimpl

if TYPE_CHECKING:
    import argparse

    from pml_hookspecs import Run, Services

REPORTS = "tool_feedback.reports"
LONGEST = 2000
"""Longest report [characters]."""
DEFINITION = {
    "name": "report_tool_problem",
    "description": "Report a tool that failed, misled you or is described wrongly, so that people can mend it.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "tool": {"type": "string", "description": "The tool's name, as you called it"},
            "problem": {"type": "string", "description": "What you did, what you expected and what happened"},
        },
        "required": ["tool", "problem"],
    },
}


@hookimpl
def pml_meta_tools(services: Services) -> list[MetaTool]:
    """``report_tool_problem``."""

    async def report(arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
        name, problem = str(arguments.get("tool") or ""), str(arguments.get("problem") or "").strip()
        entry = services.catalog.resolve(name)
        if entry is None or not services.catalog.allows(entry, run.session):
            raise InvalidArguments(f"tool: there is no tool {name!r}; give its name as you called it")
        if not 0 < len(problem) <= LONGEST:
            raise InvalidArguments(f"problem: say in 1 to {LONGEST} characters what went wrong")
        if run.dry_run:
            return {"kept": False, "why": "this is a rehearsal"}
        session = run.session
        value = {"tool": entry.id, "problem": problem, "by": session.principal, "client": session.client}
        await services.store.documents.put(REPORTS, run.id, value, marks={"tool": entry.id})
        return {"kept": True, "report": run.id}

    # Which tools there are is known once every server has been tried.
    return [MetaTool(definition=DEFINITION, call=report, whole_catalog=True)]


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """``pml feedback``."""
    parser = subcommands.add_parser("feedback", help="what agents reported about tools")
    parser.add_argument("--tool", metavar="ID", help="of this tool only, such as files:read_file")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(run_with=show)


async def show(arguments: argparse.Namespace, services: Services) -> int:
    """Print the newest hundred reports."""
    marks = {"tool": arguments.tool} if arguments.tool else {}
    page = await services.store.documents.find(REPORTS, marks=marks)
    reports = [{**document.value, "at": document.created_at.isoformat(timespec="seconds")} for document in page.items]
    lines = [f"{r['at']}  {r['tool']}  {r['problem']}  ({r['client'] or r['by']})" for r in reports] or ["No reports."]
    text = json.dumps(reports, indent=2, ensure_ascii=False) if arguments.json else "\n".join(lines)
    sys.stdout.write(text + "\n")
    return 0
