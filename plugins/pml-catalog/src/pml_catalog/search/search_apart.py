"""Search what a server lists for some clients only: too little, and for too few, to build the index of all anew."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from pml_hookspecs import Match, ToolId

from .word_index import WordIndex

if TYPE_CHECKING:
    from pml_catalog.tool_tables import Table


def common(table: Table, shared: Table, among: Collection[ToolId] | None) -> frozenset[ToolId] | None:
    """Those of ``among`` that the index of all can answer for: what ``table`` has as all others see it."""
    if among is None:
        return None
    return frozenset(id for id in among if _same(id, table, shared))


def _same(id: ToolId, table: Table, shared: Table) -> bool:
    here, there = table.entries.get(id), shared.entries.get(id)
    return here is not None and there is not None and here.digest == there.digest


async def search_apart(
    table: Table, shared: Table, among: Collection[ToolId], query: str, limit: int, min_score: float
) -> Sequence[Match]:
    """What is found by its words of the tools of ``among`` that only ``table`` has, or has otherwise."""
    apart = [table.entries[id] for id in among if not _same(id, table, shared)]
    if not apart:
        return ()
    index = WordIndex()
    await index.build(apart, table.revision)
    return await index.search(query, limit=limit, min_score=min_score)


def merged(some: Sequence[Match], others: Sequence[Match], limit: int) -> Sequence[Match]:
    """The best of both, as one search gives them."""
    return sorted([*some, *others], key=lambda match: (-match.score, match.id))[:limit]
