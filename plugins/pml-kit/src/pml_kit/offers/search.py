"""What ranks tools against a query, and what turns texts into vectors for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pml_hookspecs import Key

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, Match, Session, ToolId


class SearchIndex(Protocol):
    """Ranks catalog entries against a query. Backs ``Catalog.search``."""

    async def build(self, entries: Sequence[CatalogEntry], revision: str) -> None:
        """Index ``entries``, replacing what was there. Searches keep using the old index until this returns.

        Called in the background, never twice at a time. Tools that have not changed since the last time have the same
        ``digest``.
        """
        ...

    async def search(
        self,
        query: str,
        *,
        limit: int,
        min_score: float,
        among: Collection[ToolId] | None = None,
        session: Session | None = None,
    ) -> Sequence[Match]:
        """At most ``limit`` matches scoring ``min_score`` or more, best first, ties by id. Empty query: none.

        Args:
            query: In any language, of any length.
            limit: Most matches.
            min_score: Least relevance, in ``[0, 1]``.
            among: Ids that may be found; scores and order tell nothing of others. None for all. The same object for
                the same view of the same revision, so that what is made of it can be kept.
            session: Who asks, for evidence from its own past; None when nobody does.
        """
        ...


@runtime_checkable
class ScoreExplainer(SearchIndex, Protocol):
    """An index that can say what its scores are made of."""

    async def explain(
        self, query: str, *, limit: int, among: Collection[ToolId] | None = None, session: Session | None = None
    ) -> Mapping[ToolId, Sequence[str]]:
        """For each match of the same search by :meth:`SearchIndex.search`, lines for people, what counts most first."""
        ...


class Embedder(Protocol):
    """Turns texts into vectors whose inner product says how alike their meanings are."""

    @property
    def name(self) -> str:
        """Of the model and all that changes its vectors: part of the key under which vectors are kept."""
        ...

    async def embed(self, texts: Sequence[str], *, query: bool) -> Any:
        """One vector of unit length for each text, in order: what ``numpy.asarray`` takes, of shape (texts, size).

        Args:
            texts: Any number, of any length; what is too long for the model is cut.
            query: True for what somebody asks, False for what is searched; some models tell them apart.

        Raises:
            Exception: Any, such as a service that cannot be reached. The search goes without.
        """
        ...


SEARCH: Key[SearchIndex] = Key("search", SearchIndex)
"""Without any, and where several are there and none is named, the core's BM25 is the one."""
EMBEDDER: Key[Embedder] = Key("embedder", Embedder)
"""A model that has to be loaded is loaded when it is first used."""
