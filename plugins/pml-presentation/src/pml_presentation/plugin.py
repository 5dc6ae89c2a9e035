"""Hook plugin ``presentation``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Offer, hookimpl
from pml_kit.offers import PRESENTATION, TOOL_NAMES, NamedTools

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services, ToolFilter, Wrapper
    from pml_kit.offers import View

settings_type = Settings


def _settings(services: Services) -> Settings:
    return services.settings or Settings()


def settings_warnings(settings: Settings, views: Sequence[View], servers: Collection[str]) -> Iterable[str]:  # noqa: ARG001 - the contract's signature
    """What is hardly meant in the table, for ``pml config check`` and the log."""
    known = {view.endpoint for view in views}
    for endpoint in settings.endpoints:
        if endpoint not in known:
            there = ", ".join(sorted(known))
            yield f"plugins.presentation.endpoints.{endpoint}: there is no such endpoint; there are: {there}."


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    """How tools are shown, and what the tables name."""
    settings = _settings(services)

    async def named() -> Sequence[NamedTools]:
        where = f"plugins.{services.plugin}"
        toolsets = [
            NamedTools(f"{where}.toolsets.{name}.{member}", patterns, ids_only=True)
            for name, toolset in settings.toolsets.items()
            for member, patterns in (
                ("servers", [f"{server}:*" for server in toolset.servers]),
                ("tools", toolset.tools),
                ("without", toolset.without),
            )
        ]
        return [NamedTools(f"{where}.tools", [*settings.tools], ids_only=True), *toolsets]

    offers: list[Offer[Any]] = [Offer(TOOL_NAMES, named)]
    if settings.tools:
        from .tools import ShownTools

        offers.append(Offer(PRESENTATION, ShownTools(settings.tools, services.log)))
    return offers


@hookimpl
def pml_filter_tools(services: Services) -> Iterable[ToolFilter]:
    """Keeps who has chosen toolsets to these; none where nobody has."""
    settings = _settings(services)
    if not (settings.endpoints or settings.keys):
        return []
    from .toolsets import ToolsetFilter

    return [ToolsetFilter(settings)]


@hookimpl
def pml_wrap_executor(services: Services) -> Iterable[Wrapper]:
    """Gives calls what is fixed; none where nothing is."""
    tools = _settings(services).tools
    if not any(tool.arguments or tool.defaults for tool in tools.values()):
        return []
    from .arguments import FixedArguments

    return [FixedArguments(services, tools)]
