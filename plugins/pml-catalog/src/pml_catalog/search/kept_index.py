"""The search index, built again in the background when the catalog changes, and the old one served meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any

from pml_hookspecs import CatalogEntry, Match, Session, ToolId
from pml_kit.offers import SearchIndex

PATIENCE_S = 0.25
"""A search waits this long for the index of the catalog as it is now; then the one before answers."""


class KeptIndex:
    """An index and the revision of the catalog that it was built for."""

    def __init__(self, index: SearchIndex, log: Any) -> None:
        self._index, self._log = index, log
        self._spare = index
        self._revision = ""
        self._building: asyncio.Task[None] | None = None

    def use(self, index: SearchIndex) -> None:
        """Search with ``index`` from now on; the one given first takes over when it cannot be built."""
        self._index, self._revision = index, ""

    async def search(
        self,
        query: str,
        revision: str,
        entries: Callable[[], Sequence[CatalogEntry]],
        *,
        limit: int,
        min_score: float,
        among: Collection[ToolId] | None,
        session: Session | None,
    ) -> Sequence[Match]:
        """What the index finds; ``entries`` are those of ``revision``, asked for when they are to be indexed."""
        if self._revision != revision:
            if self._building is None or self._building.done():
                self._building = asyncio.create_task(self._build(entries(), revision), name="search-index")
            await asyncio.wait((self._building,), timeout=PATIENCE_S if self._revision else None)
        return await self._index.search(query, limit=limit, min_score=min_score, among=among, session=session)

    async def _build(self, entries: Sequence[CatalogEntry], revision: str) -> None:
        try:
            await self._index.build(entries, revision)
        except Exception:
            self._log.exception("the search index cannot be built; searching by words only")
            self._index = self._spare
            await self._index.build(entries, revision)
        self._revision = revision

    async def close(self) -> None:
        """Give up what is being built."""
        if self._building is not None:
            self._building.cancel()
            await asyncio.gather(self._building, return_exceptions=True)
