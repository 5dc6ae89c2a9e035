"""Exposure mode ``full_proxy``: every tool of every server, as if the client were connected to all of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pml_hookspecs import Selection, setting

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, CatalogEntry, Services, Session
    from pml_kit.offers import View

__all__ = ["FullProxy", "Settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The table ``[plugins.full_proxy]``."""

    expose_meta_tools: bool = setting(
        False, "Also list the meta-tools, first; without them no workflow, dry run or history can be reached by name."
    )


class FullProxy:
    """Shows all tools of all servers. Implements :class:`pml_hookspecs.ExposureMode`."""

    settings_type = Settings

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        """``services`` is where the cost of showing everything is logged."""
        self._settings, self._services = settings or Settings(), services
        self._warned = False

    @classmethod
    def settings_warnings(cls, settings: Settings, views: Sequence[View], servers: Collection[str]) -> Iterator[str]:
        """What it costs, for each endpoint that uses it; neither ``settings`` nor ``servers`` make a difference."""
        for view in views:
            if view.mode == "full_proxy":
                where = "gateway" if view.endpoint == "default" else f"endpoints.{view.endpoint}"
                yield (
                    f"{where}.tools_exposure: full_proxy puts every tool into each client's context. Fine to begin "
                    "with; pml tokens shows what the other modes cost."
                )

    @property
    def lists_meta_tools(self) -> bool:
        """Whether clients are told how to use the meta-tools."""
        return self._settings.expose_meta_tools

    async def select(self, catalog: Catalog, session: Session) -> Selection:
        """The meta-tools if they are wanted, then all tools of the servers in catalog order; for every session."""
        entries = list(catalog)
        meta = [entry for entry in entries if entry.meta and self._settings.expose_meta_tools]
        theirs = [entry for entry in entries if not entry.own]
        self._warn(theirs)
        why = {entry.id: "meta-tool" for entry in meta} | {entry.id: "every tool is shown" for entry in theirs}
        return Selection(tuple(why), shared=True, why=why)

    def _warn(self, shown: list[CatalogEntry]) -> None:
        """Say once what it costs."""
        if self._warned or not shown or self._services is None:
            return
        self._warned = True
        # In the background: the first log line of a gateway costs an import, which the first list need not wait for.
        self._services.spawn(self._tell, self._services, shown, name="cost")

    async def _tell(self, services: Services, shown: list[CatalogEntry]) -> None:
        import asyncio

        from pml_kit.mcp.tokens import estimate, text_of_tool

        named = [(entry.definition, services.catalog.exposed_name(entry.id)) for entry in shown]
        # As `pml tokens` counts, which of many tools takes tenths of a second.
        tokens = await asyncio.to_thread(lambda: sum(estimate(text_of_tool(*tool)) for tool in named))
        services.log.warning(
            "full_proxy puts every tool into each client's context; hybrid or meta_only need far less",
            tools=len(shown),
            tokens=tokens,
        )
