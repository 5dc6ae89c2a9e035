"""Which tools ran together in the caller's own past plans."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import permutations
from typing import TYPE_CHECKING

from pml_hookspecs import ExecutionQuery, Scope, ToolId
from pml_kit.pages import every_execution

if TYPE_CHECKING:
    from pml_hookspecs import Store

MOST_PLANS = 500
"""Executions that are looked at, the newest."""


async def together(store: Store, principal: str) -> Mapping[ToolId, Mapping[ToolId, float]]:
    """Of each tool, the share of the plans with it that ended well and had the other one, too."""
    plans: Counter[ToolId] = Counter()
    pairs: defaultdict[ToolId, Counter[ToolId]] = defaultdict(Counter)
    query = ExecutionQuery(
        scope=Scope(principals=frozenset({principal})),
        statuses=frozenset({"ok"}),
        top_level=True,
        include_dry_runs=False,
        limit=100,
    )
    async for record in every_execution(store.executions, query, most=MOST_PLANS):
        tools = {ToolId(tool) for tool in record.tool_calls}
        plans.update(tools)
        for one, other in permutations(tools, 2):
            pairs[one][other] += 1
    return {one: {other: n / plans[one] for other, n in others.items()} for one, others in pairs.items()}
