"""Hook plugin ``console``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from pml_hookspecs import SharedRoute, hookimpl
from pml_kit.offers import OpenRoute

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services

settings_type = Settings
TELL_AFTER_S = 2.0
"""How long after its start a gateway says how it is [s]."""


@hookimpl
def pml_routes(services: Services) -> Iterable[Any]:
    """The pages, under ``/console/``, which nobody sees without having logged in there, and ``/api/definitions``."""
    from . import review_api, site

    pages = map(OpenRoute, site.routes(services, services.settings or Settings()))
    return [*pages, *map(SharedRoute, review_api.routes(services))]


@hookimpl
def pml_lifespan(services: Services) -> Iterable[AbstractAsyncContextManager[None]]:
    """Where there is a store that others may look at, it says how this gateway's servers are and who is connected."""
    services.spawn(_tell, services, name="console.gateways")
    return ()


async def _tell(services: Services) -> None:
    # Not before the first client has been greeted, which waits for no import of a page.
    await asyncio.sleep(TELL_AFTER_S)
    from .gateways import tell

    await tell(services)


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """``pml console`` and ``pml report``."""
    from . import command
    from .reports import report_command

    command.add(subcommands)
    report_command.add(subcommands)
