"""The search index of the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CatalogEntry, Match, ToolId
from pml_kit.mcp.tool_schemas import problem_of

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services, Session

    from .embedding import EmbeddingIndex
    from .history import History
    from .ranker import RankedTools, Ranker
    from .rows import Tool
    from .views import Views

WORTH_GIVING_BACK = 2000
"""Tools from which on building takes so much memory that it is worth being given back."""


class Index:
    """Ranks tools by words, meaning and structure. Implements :class:`pml_kit.offers.SearchIndex`.

    Args:
        log: Structlog logger.
        cache: Folder to keep built indexes in; None keeps none.
        services: For what servers say of themselves, for a model that embeds texts and for what was done before; None
            does without.
        settings: What of these is used.
    """

    def __init__(
        self,
        log: Any,
        cache: Path | None = None,
        services: Services | None = None,
        settings: Settings | None = None,
    ) -> None:
        self._log, self._cache, self._services = log, cache, services
        self._settings = settings or Settings()
        self._views: Views | None = None
        self._building = asyncio.Lock()
        self._embedding_index: EmbeddingIndex | None = None
        self._history: History | None = None

    async def build(self, entries: Sequence[CatalogEntry], revision: str) -> None:
        """Index ``entries`` in a thread; tools that have not changed keep what was read out of them."""
        async with self._building:
            about = {} if self._services is None else about_servers(self._services)
            self._views, tools = await asyncio.to_thread(self._built, tuple(entries), about)
            if self._services is not None:
                self._prepare_helpers(self._services)
                if self._embedding_index is not None:
                    self._embedding_index.request_vectors(tools)

    def _prepare_helpers(self, services: Services) -> None:
        if self._embedding_index is None and self._settings.embedder_weight > 0:
            from .embedding import EmbeddingIndex

            settings = self._settings
            self._embedding_index = EmbeddingIndex(
                services,
                weight=settings.embedder_weight,
                deadline_s=settings.embedder_deadline_ms / 1000,
                folder=self._cache,
            )
        if self._history is None and self._settings.learn_from_history:
            from .history import History

            self._history = History(services)

    def _built(self, entries: Sequence[CatalogEntry], about: Mapping[str, str]) -> tuple[Views, Sequence[Tool]]:
        # NumPy takes a tenth of a second to load: not before a search needs it.
        from . import index_data, memory_trim, snapshot
        from .piece_vectors import table
        from .ranker import Ranker
        from .views import Views

        tools = [tool_of(entry, about.get(entry.server, "")) for entry in entries]
        file = self._cache / snapshot.name_of(tools) if self._cache is not None else None
        data = snapshot.load(file, tools) if file is not None and file.exists() else None
        if data is None:
            before = None
            if self._views is not None:
                before = (self._views.whole.data.rows, self._views.whole.data.vocabulary)
            elif self._cache is not None:
                before = snapshot.latest(self._cache)
            data = index_data.build(tools, table(), before)
            if file is not None and tools:
                try:
                    snapshot.save(data, file)
                except OSError as exc:
                    self._log.warning("the search index is not kept for the next start", file=str(file), error=str(exc))
        ranker = Ranker(data)
        if len(tools) >= WORTH_GIVING_BACK:
            memory_trim.give_back()
        return Views(tools, ranker), tools

    async def search(
        self,
        query: str,
        *,
        limit: int,
        min_score: float,
        among: Collection[ToolId] | None = None,
        session: Session | None = None,
    ) -> Sequence[Match]:
        """As :class:`pml_kit.offers.SearchIndex` says; ``min_score`` is one of :mod:`pml_search.calibration`.

        The answer is that of an index of the tools ``among`` alone. What is searched for a list, which is
        ``session.intent``, is found without evidence from the past of ``session``: lists are to stay as they are.
        """
        ranked = await self._ranked(query, limit, among, session)
        if ranked is None:
            return []
        ranker, found = ranked
        ids = ranker.data.ids
        scored = zip(found.tools.tolist(), found.relevance.tolist(), strict=True)
        return [Match(ToolId(ids[tool]), round(score, 4)) for tool, score in scored if score >= min_score]

    async def explain(
        self, query: str, *, limit: int, among: Collection[ToolId] | None = None, session: Session | None = None
    ) -> Mapping[ToolId, Sequence[str]]:
        """As :class:`pml_kit.offers.ScoreExplainer` says: what ``pml search --explain`` prints."""
        ranked = await self._ranked(query, limit, among, session)
        if ranked is None:
            return {}
        from . import explain

        ranker, found = ranked
        return {
            ToolId(ranker.data.ids[tool]): list(explain.lines_of(explain.of_match(ranker, found, rank)))
            for rank, tool in enumerate(found.tools.tolist())
        }

    async def _ranked(
        self, query: str, limit: int, among: Collection[ToolId] | None, session: Session | None
    ) -> tuple[Ranker, RankedTools] | None:
        views = self._views
        if views is None or limit < 1:
            return None
        ranker = await views.of(among)
        parts = ranker.prepare(query)
        if not parts:
            return None
        opinion = None
        if self._embedding_index is not None:
            texts = [part.text for part in parts]
            opinion = await self._embedding_index.scores(ranker, lambda: views.tools_of(ranker), texts)
        past = None
        if self._history is not None and session is not None and query.strip() != session.intent.strip():
            past = self._history.of(session.principal)
        found = ranker.rank(parts, limit, model=opinion, past=past)
        return None if found is None else (ranker, found)


def about_servers(services: Services) -> dict[str, str]:
    """By name what servers say of themselves, as far as is known."""
    return {status.name: status.description for status in services.catalog.servers() if status.description}


def tool_of(entry: CatalogEntry, about_server: str = "") -> Tool:
    """What the ranker wants of a catalog entry."""
    from .rows import Tool

    unread = [member for member in ("inputSchema", "outputSchema") if problem_of(entry, member)]
    definition = {k: v for k, v in entry.definition.items() if k not in unread} if unread else entry.definition
    return Tool(entry.id, entry.server, definition, entry.digest or repr(entry.definition), about_server)
