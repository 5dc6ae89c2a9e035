"""Hook plugin ``inspection``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Check, Offer, hookimpl
from pml_kit.offers import DEFINITIONS, TOOL_NAMES, NamedTools
from pml_kit.shared import GatewayParts

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, Services, ToolFilter, Wrapper

    from .definitions import DefinitionInspector

settings_type = Settings


def _settings(services: Services) -> Settings:
    return services.settings or Settings()


def _made(services: Services) -> DefinitionInspector:
    from .definitions import DefinitionInspector

    return DefinitionInspector(services, _settings(services))


inspector_of = GatewayParts(_made)


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    """What is put in place of definitions, and what the settings name."""

    async def named() -> Sequence[NamedTools]:
        return [NamedTools(f"plugins.{services.plugin}.accepted", _settings(services).accepted, ids_only=True)]

    return [Offer(TOOL_NAMES, named), Offer(DEFINITIONS, LazyInspector(services))]


class LazyInspector:
    """Makes the inspector when a server has said something. Implements `DefinitionFilter` and `WordFilter`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def __call__(self, entry: CatalogEntry) -> Mapping[str, Any] | None:
        """What the catalog has in place of a tool's definition."""
        return inspector_of(self._services)(entry)

    def said(self, id: str, server: str, item: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """What clients have in place of something else."""
        return inspector_of(self._services).said(id, server, item)


@hookimpl
def pml_filter_tools(services: Services) -> Iterable[ToolFilter]:
    """Withholds tools in quarantine; none where nothing may be."""
    if not _settings(services).quarantines:
        return []
    from .definitions import QuarantineFilter

    return [QuarantineFilter(inspector_of(services))]


@hookimpl
def pml_wrap_executor(services: Services) -> Iterable[Wrapper]:
    """Refuses calls of tools in quarantine, and looks at results; none where there is nothing to do."""
    settings = _settings(services)
    if not (settings.quarantines or settings.reads_results):
        return []
    from .wrapper import InspectionWrapper

    return [InspectionWrapper(services, settings, inspector_of)]


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """``pml inspect``."""
    from .command import add

    add(subcommands, inspector_of)


@hookimpl
def pml_checks(services: Services) -> Iterable[Check]:
    """Whether the servers, as they were last seen, have suspicious text."""
    from .command import checks

    return checks(services, inspector_of)
