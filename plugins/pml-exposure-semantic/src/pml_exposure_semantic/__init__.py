"""Exposure mode ``semantic``: the meta-tools, and the tools that fit what the client says it is about to do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pml_hookspecs import Selection, setting

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, Services, Session, ToolId
    from pml_kit.offers import View

TABLE = "plugins.semantic"
MANY = 100
"""More listed tools than this fill a context [tools]."""
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

    @classmethod
    def settings_warnings(cls, settings: Settings, views: Sequence[View], servers: Collection[str]) -> Iterator[str]:
        """What is hardly meant in the table, where an endpoint uses the mode; ``servers`` make no difference."""
        used = [view for view in views if view.mode == "semantic"]
        for view in used:
            if not view.intent.strip():
                where = "gateway" if view.endpoint == "default" else f"endpoints.{view.endpoint}"
                yield (
                    f"{where}.intent: is empty, so semantic lists no tools by relevance to clients that send no hint "
                    "of their own. Say in a few words what the clients do, or choose meta_only."
                )
        if used and settings.max_underlying_tools > MANY:
            yield f"{TABLE}.max_underlying_tools: over {MANY} tools fill a context; 20 to 50 suit most clients."
        if used and settings.semantic_threshold in (0, 1):
            found = "the list is filled up with tools that do not fit" if not settings.semantic_threshold else ""
            said = found or "hardly any tool is listed"
            yield f"{TABLE}.semantic_threshold: at {settings.semantic_threshold:g} {said}; 0.6 is the default."

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
