"""Which tools ran together in the caller's own past plans."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import permutations
from typing import TYPE_CHECKING

from pml_hookspecs import ExecutionQuery, Scope, ToolId

if TYPE_CHECKING:
    from pml_hookspecs import Store

PAGES = 5
"""Pages of a hundred executions that are looked at."""


async def together(store: Store, principal: str) -> Mapping[ToolId, Mapping[ToolId, float]]:
    """Of each tool, the share of the plans with it that ended well and had the other one, too."""
    plans: Counter[ToolId] = Counter()
    pairs: defaultdict[ToolId, Counter[ToolId]] = defaultdict(Counter)
    cursor: str | None = None
    for _ in range(PAGES):
        query = ExecutionQuery(
            scope=Scope(principals=frozenset({principal})),
            statuses=frozenset({"ok"}),
            top_level=True,
            include_dry_runs=False,
            limit=100,
            cursor=cursor,
        )
        page = await store.executions.find(query)
        for record in page.items:
            tools = {ToolId(tool) for tool in record.tool_calls}
            plans.update(tools)
            for one, other in permutations(tools, 2):
                pairs[one][other] += 1
        cursor = page.cursor
        if cursor is None:
            break
    return {one: {other: n / plans[one] for other, n in others.items()} for one, others in pairs.items()}
