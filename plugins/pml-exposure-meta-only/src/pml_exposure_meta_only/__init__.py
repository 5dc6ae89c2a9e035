"""Exposure mode ``meta_only``: the meta-tools, through which every other tool is found and called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pml_hookspecs import Selection

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, Services, Session

__all__ = ["MetaOnly", "Settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Nothing to set."""


class MetaOnly:
    """Shows the meta-tools and nothing else. Implements :class:`pml_hookspecs.ExposureMode`."""

    settings_type = Settings
    whole_catalog = False

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        """Neither argument changes anything."""

    async def select(self, catalog: Catalog, session: Session) -> Selection:
        """The meta-tools in catalog order, the same for every session. Empty when no plugin brings any."""
        tools = tuple(entry.id for entry in catalog if entry.meta)
        return Selection(tools, shared=True, why=dict.fromkeys(tools, "meta-tool"))
