"""Settings without a default: they do not validate unless the operator says something."""

from __future__ import annotations

from dataclasses import dataclass

from pml_hookspecs import Catalog, Selection, Services, Session, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One field that has a default, and one that has none."""

    address: str
    limit: int = setting(10, "Most tools to show [tools].", ge=0)


class Mode:
    """An exposure mode that nobody ever sees."""

    settings_type = Settings

    def __init__(self, settings: Settings, services: Services) -> None:
        self.limit = settings.limit

    async def select(self, catalog: Catalog, session: Session) -> Selection:
        """The first ``limit`` tools."""
        return Selection(tuple(e.id for e in catalog)[: self.limit], shared=True)
