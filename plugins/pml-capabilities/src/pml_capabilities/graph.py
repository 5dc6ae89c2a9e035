"""What uses what, as a graph: capabilities, the tools they use, and tools that are used together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from pml_hookspecs import ExecutionQuery, Scope, split_tool_id

if TYPE_CHECKING:
    from pml_hookspecs import Executions

    from .capability import Capability

PAGE = 100
MOST_EXECUTIONS = 1000
MOST_TOGETHER = 30
"""Tools of one execution that are paired at most: pairs grow with the square."""


def graph(capabilities: Sequence[Capability], together: Iterable[Sequence[str]] = ()) -> dict[str, Any]:
    """Nodes and edges, in an order that depends on nothing but what is given.

    Args:
        capabilities: Each becomes a node, and so does every tool that it uses.
        together: Tools called in one execution each.

    Returns:
        ``nodes``: ``id``, ``type`` (``capability`` or ``tool``), ``name``, and more by type. ``edges``: ``source``,
        ``target``, ``type`` and ``weight``: ``uses`` from a capability to a tool, by how often that ended well;
        ``used_together`` between two tools, by in how many executions. Both ends of every edge are among the nodes.
    """
    tools = {str(tool) for capability in capabilities for tool in capability.tools}
    pairs: Counter[tuple[str, str]] = Counter()
    for capability in capabilities:
        _count(pairs, capability.tools, capability.successes)
    for called in together:
        _count(pairs, tools.intersection(called), 1)
    nodes = [_capability(c) for c in sorted(capabilities, key=lambda c: c.id)] + [_tool(tool) for tool in sorted(tools)]
    uses = sorted((c.id, str(tool), c.successes) for c in capabilities for tool in c.tools)
    edges = [_edge(source, target, "uses", weight) for source, target, weight in uses]
    edges += [_edge(one, other, "used_together", weight) for (one, other), weight in sorted(pairs.items())]
    return {"nodes": nodes, "edges": edges}


def _count(pairs: Counter[tuple[str, str]], tools: Iterable[str], times: int) -> None:
    for pair in combinations(sorted(set(map(str, tools)))[:MOST_TOGETHER], 2):
        pairs[pair] += times


def _capability(capability: Capability) -> dict[str, Any]:
    return {
        "id": capability.id,
        "type": "capability",
        "name": capability.name,
        "intent": capability.intent,
        "language": capability.language,
        "successes": capability.successes,
        "failures": capability.failures,
        "duration_ms": capability.duration_ms,
        "retired": capability.retired or None,
    }


def _tool(tool: str) -> dict[str, Any]:
    server, name = split_tool_id(tool)
    return {"id": tool, "type": "tool", "name": name, "server": server}


def _edge(source: str, target: str, kind: str, weight: int) -> dict[str, Any]:
    return {"source": source, "target": target, "type": kind, "weight": weight}


async def used_together(executions: Executions, scope: Scope) -> list[Sequence[str]]:
    """Tools of recent executions that called several, those of learned code left out: it is counted by itself."""
    found: list[Sequence[str]] = []
    seen, cursor = 0, None
    while seen < MOST_EXECUTIONS:
        query = ExecutionQuery(scope=scope, top_level=True, include_dry_runs=False, limit=PAGE, cursor=cursor)
        page = await executions.find(query)
        found += [r.tool_calls for r in page.items if r.kind == "workflow" and len(set(r.tool_calls)) > 1]
        seen, cursor = seen + len(page.items), page.cursor
        if cursor is None:
            break
    return found
