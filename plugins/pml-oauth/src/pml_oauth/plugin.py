"""Hook plugin ``oauth``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from pml_hookspecs import Offer, hookimpl
from pml_kit.offers import IDENTITIES, PROTECTED_RESOURCE
from pml_kit.shared import GatewayParts

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services, ToolFilter

    from .fetch import Fetcher
    from .identities import TokenIdentities
    from .resource import Resource

settings_type = Settings
FILTERS = "access"
"""The plugin that holds callers to the patterns of what they came with."""


class Parts(NamedTuple):
    """What is there once, while a gateway runs."""

    fetcher: Fetcher
    identities: TokenIdentities
    resource: Resource


def _made(services: Services) -> Parts:
    from .fetch import Fetcher
    from .identities import TokenIdentities
    from .resource import Resource

    fetcher, resource = Fetcher(), Resource(services, services.settings)
    return Parts(fetcher, TokenIdentities(services, services.settings, fetcher, resource), resource)


_parts = GatewayParts(_made, of=lambda services: services.catalog)


def _is_on(services: Services) -> bool:
    return bool((services.settings or Settings()).issuer)


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    """Nothing without an issuer."""
    if not _is_on(services):
        return []
    parts = _parts(services)
    return [Offer(IDENTITIES, parts.identities), Offer(PROTECTED_RESOURCE, parts.resource)]


@hookimpl
def pml_filter_tools(services: Services) -> Iterable[ToolFilter]:
    """None; but tokens are of no use where nobody holds their holders to what they allow.

    Raises:
        ValueError: There is no such plugin.
    """
    if _is_on(services) and FILTERS not in {plugin for plugin, _ in services.find_all(IDENTITIES)}:
        raise ValueError(
            "[plugins.oauth] needs pml-access, which holds callers to their rights: install it, enable plugin "
            f"{FILTERS!r}, and leave identities out of [gateway.providers]"
        )
    return []


@hookimpl
def pml_lifespan(services: Services) -> Iterable[AbstractAsyncContextManager[None]]:
    """Closes connections to the authorization server."""
    return [_life(_parts(services).fetcher)] if _is_on(services) else []


@asynccontextmanager
async def _life(fetcher: Fetcher) -> AsyncIterator[None]:
    yield
    await fetcher.close()
