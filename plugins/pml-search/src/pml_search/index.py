"""The search index of the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CatalogEntry, Match, ToolId

if TYPE_CHECKING:
    from .ranker import Ranker
    from .rows import Tool


class Index:
    """Ranks tools by words, meaning and structure. Implements :class:`pml_hookspecs.SearchIndex`.

    Args:
        log: Structlog logger.
        cache: Folder to keep built indexes in; None keeps none.
    """

    def __init__(self, log: Any, cache: Path | None = None) -> None:
        self._log, self._cache = log, cache
        self._ranker: Ranker | None = None
        self._building = asyncio.Lock()

    async def build(self, entries: Sequence[CatalogEntry], revision: str) -> None:
        """Index ``entries`` in a thread; tools that have not changed keep what was read out of them."""
        async with self._building:
            self._ranker = await asyncio.to_thread(self._built, tuple(entries))

    def _built(self, entries: Sequence[CatalogEntry]) -> Ranker:
        # NumPy takes a tenth of a second to load: not before a search needs it.
        from . import index_data, snapshot
        from .ranker import Ranker
        from .table import table

        tools = [tool_of(entry) for entry in entries]
        file = self._cache / snapshot.name_of(tools) if self._cache is not None else None
        data = snapshot.load(file, tools) if file is not None and file.exists() else None
        if data is None:
            before = None
            if self._ranker is not None:
                before = (self._ranker.data.rows, self._ranker.data.vocabulary)
            elif self._cache is not None:
                before = snapshot.latest(self._cache)
            data = index_data.build(tools, table(), before)
            if file is not None and tools:
                try:
                    snapshot.save(data, file)
                except OSError as exc:
                    self._log.warning("the search index is not kept for the next start", file=str(file), error=str(exc))
        return Ranker(data)

    async def search(
        self, query: str, *, limit: int, min_score: float, among: Collection[ToolId] | None = None
    ) -> Sequence[Match]:
        """At most ``limit`` matches scoring ``min_score`` or more, best first, ties by id. Empty query: none.

        Args:
            query: In any language, of any length.
            limit: Most matches.
            min_score: In ``[0, 1]``; see :mod:`pml_search.calibration`.
            among: Ids that may be found; scores tell nothing of others. None for all.
        """
        ranker = self._ranker
        found = ranker.search(query, limit, among) if ranker is not None and limit > 0 else None
        if ranker is None or found is None:
            return []
        ids = ranker.data.ids
        scored = zip(found.tools.tolist(), found.relevance.tolist(), strict=True)
        return [Match(ToolId(ids[tool]), round(score, 4)) for tool, score in scored if score >= min_score]


def tool_of(entry: CatalogEntry) -> Tool:
    """What the ranker wants of a catalog entry."""
    from .rows import Tool

    return Tool(entry.id, entry.server, entry.definition, entry.digest or repr(entry.definition))
