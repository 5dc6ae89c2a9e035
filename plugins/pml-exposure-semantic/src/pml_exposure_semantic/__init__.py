"""Exposure mode ``semantic``: the meta-tools, and the tools that fit what the client says it is about to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pml_hookspecs import Selection, setting

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, Services, Session, ToolId

__all__ = ["Semantic", "Settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The table ``[plugins.semantic]``; what it does not say is taken from ``[plugins.hybrid]``."""

    max_underlying_tools: int = setting(50, "Most tools of servers to show [tools]; 30 suits most clients.", ge=0)
    semantic_threshold: float = setting(0.6, "Least relevance of a tool to the intent for it to be shown.", ge=0, le=1)


class Semantic:
    """Shows the meta-tools and what fits the intent. Implements :class:`pml_hookspecs.ExposureMode`."""

    settings_type = Settings
    settings_fallback = "hybrid"
    """Plugin whose table fills the fields of the same name that ``[plugins.semantic]`` leaves out."""

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        """``services`` is not used: the catalog comes with each question."""
        self._settings = settings or Settings()

    async def select(self, catalog: Catalog, session: Session) -> Selection:
        """The meta-tools in catalog order, then what fits the intent, best first. Without one, the meta-tools only.

        Tools that the session may not have are not searched: they take no place of another, and change no relevance.
        """
        why: dict[ToolId, str] = {entry.id: "meta-tool" for entry in catalog if entry.meta}
        limit = self._settings.max_underlying_tools
        if limit and session.intent.strip():
            threshold = self._settings.semantic_threshold
            hits = await catalog.search(session.intent, limit=limit, min_score=threshold, session=session)
            for hit in hits:
                why.setdefault(hit.id, f"fits the intent (relevance {hit.score:.2f})")
        return Selection(tuple(why), shared=limit == 0, why=why)
