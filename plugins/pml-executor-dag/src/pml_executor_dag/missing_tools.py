"""Finds tools and stored results that are not there, before anything runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pml_hookspecs import InvalidArguments, Json, Task, ToolCall, Workflow, split_tool_id
from pml_kit.offers.plan_graphs import EACH

from .plan import MOST_SUGGESTIONS, Node

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, Run, ServerStatus, Session, ToolId

MOST_NEAR = 3
"""Names that a message suggests."""
NEAR = 0.7
SEPARATOR = "__"


def has_begun(workflow: Workflow) -> bool:
    """Whether tasks of ``workflow`` ran before: what has effects then is undone, not refused."""
    return not workflow.known.keys() <= EACH


def missing_tools(tasks: Sequence[Task], catalog: Catalog, session: Session, where: str = "tasks") -> list[str]:
    """Calls, also those of plans within and of what undoes, that can reach no tool, as ``where: what`` lines.

    A server that is starting or down may have any tool; whether it has is found out when the tool is called. Tools that
    ``session`` may not have are refused then, too, and are not suggested; what is hidden from it is not there.
    """
    unknown = [(at, call.tool) for at, call in _calls(tasks, where) if catalog.resolve(call.tool, session) is None]
    if not unknown:
        return []
    statuses = {status.name: status for status in catalog.servers(session)}
    visible = catalog.visible(session)
    published = {entry.server for entry in catalog if entry.id in visible}
    near = _SimilarNames(catalog, visible)
    return [
        f"{at}.tool: {problem}{near.to(tool)}"
        for at, tool in unknown
        if (problem := _problem(tool, statuses, published)) is not None
    ]


def missing_results(
    workflow: Workflow, nodes: Mapping[str, Node], stored: Mapping[str, Json | InvalidArguments], run: Run
) -> list[str]:
    """References to stored results that find nothing, as ``where: what`` lines.

    None of a rehearsal, which tells of each task, nor of a plan that has begun, which is gone on with or undone.
    """
    if not stored or run.dry_run or has_begun(workflow):
        return []
    return [
        f"tasks[{i}]: {reference.text} finds nothing: {found}"
        for i, node in enumerate(nodes.values())
        for reference in node.references()
        if reference.stored and isinstance(found := stored[reference.text], InvalidArguments)
    ]


def _calls(tasks: Sequence[Task], where: str) -> Iterator[tuple[str, ToolCall]]:
    for i, task in enumerate(tasks):
        here = f"{where}[{i}]"
        yield from _of(task, here)
        if task.step.compensate is not None:
            yield from _of(task.step.compensate, f"{here}.compensate")


def _of(task: Task, here: str) -> Iterator[tuple[str, ToolCall]]:
    if isinstance(task, ToolCall):
        yield here, task
    elif isinstance(task, Workflow):
        yield from _calls(task.tasks, f"{here}.tasks")


def _problem(tool: str, statuses: dict[str, ServerStatus], published: set[str]) -> str | None:
    """Why there is no such tool; None while there may be."""
    shown, server = repr(tool[:80]), split_tool_id(tool)[0]
    if not server:
        prefix = tool.partition(SEPARATOR)[0]
        server = prefix if prefix in statuses or prefix in published else ""
    if not server:
        # Without a server's name, it may be of any that does not say yet what it has.
        return None if any(not _is_known(status) for status in statuses.values()) else f"there is no tool {shown}"
    if (status := statuses.get(server)) is not None:
        return f"server {server!r} has no tool {shown}" if _is_known(status) else None
    if server in published:
        return f"{server!r} has no tool {shown}"
    return f"there is no server {server[:80]!r}; servers: {', '.join(statuses) or 'none'}"


def _is_known(status: ServerStatus) -> bool:
    """Whether the catalog has all the tools of the server."""
    return status.state == "up" or (status.state == "idle" and status.tools > 0)


class _SimilarNames:
    """Names that are nearly the one given."""

    def __init__(self, catalog: Catalog, visible: Collection[ToolId]) -> None:
        self._names = {entry.id: entry.name.lower() for entry in catalog if entry.id in visible}
        self._suggestions = 0

    def to(self, tool: str) -> str:
        self._suggestions += 1
        # Comparing every wrong name with thousands of right ones would hold up the gateway.
        if self._suggestions > MOST_SUGGESTIONS:
            return ""
        spelt = tool if ":" in tool else tool.replace(SEPARATOR, ":", 1)
        name = split_tool_id(spelt)[1].lower()
        same = sorted(id_ for id_, own in self._names.items() if own == name)
        near = list(dict.fromkeys([*same, *get_close_matches(spelt[:128], self._names, n=MOST_NEAR, cutoff=NEAR)]))
        named = " or ".join(repr(str(id_)) for id_ in near[:MOST_NEAR])
        return f"; did you mean {named}?" if near else "; find tools with search_tools"
