"""Hook plugin ``access``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Offer, hookimpl
from pml_kit.offers import IDENTITIES, TOOL_NAMES
from pml_kit.shared import GatewayParts

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services, ToolFilter, Wrapper
    from pml_kit.offers import NamedTools

    from .agents import Agents
    from .identities import KeyIdentities

settings_type = Settings


def _made(services: Services) -> tuple[Agents, KeyIdentities]:
    from .agents import Agents
    from .identities import KeyIdentities

    settings: Settings = services.settings or Settings()
    agents = Agents(services, settings)
    return agents, KeyIdentities(services, settings, agents)


_parts = GatewayParts(_made, of=lambda services: services.catalog)
"""Services are made anew when the settings change, the catalog is not."""


def _parts_of(services: Services) -> tuple[Agents, KeyIdentities]:
    settings: Settings = services.settings or Settings()
    agents, identities = _parts(services)
    if identities.settings != settings:
        identities.settings = settings
        agents.configure(settings)
    return agents, identities


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    """The identities of the keys in the store, and what the patterns of keys that are good name."""
    return [Offer(IDENTITIES, _parts_of(services)[1]), Offer(TOOL_NAMES, partial(_named, services))]


@hookimpl
def pml_filter_tools(services: Services) -> Iterable[ToolFilter]:
    """Keeps from each what its key, or the rules of agents, do not let it have."""
    from .filters import KeyToolFilter

    return [KeyToolFilter(_parts_of(services)[0])]


async def _named(services: Services) -> Sequence[NamedTools]:
    from datetime import UTC, datetime

    from pml_kit.offers import NamedTools

    from .keys import Keys

    now = datetime.now(UTC)
    good = [key for key in await Keys(services).all() if key.state(now) == "active"]
    return [
        NamedTools(f"key {key.id} of {key.principal}: {option}", patterns or (), ids_only=True)
        for key in good
        for option, patterns in (("allow", key.allow), ("deny", key.deny))
    ]


@hookimpl
def pml_wrap_executor(services: Services) -> Iterable[Wrapper]:  # noqa: ARG001 - the contract's signature
    """Holds code to the same patterns."""
    from .filters import CodeFilter

    return [CodeFilter()]


@hookimpl
def pml_lifespan(services: Services) -> Iterable[AbstractAsyncContextManager[None]]:
    """Keeps up with what the store says of agents."""
    return [_life(services, _parts_of(services)[0])]


@asynccontextmanager
async def _life(services: Services, agents: Agents) -> AsyncIterator[None]:
    from contextlib import suppress

    with suppress(Exception):  # it was logged, and is tried again
        await agents.current()
    services.spawn(_keep_up, agents, name="agents")
    yield


async def _keep_up(agents: Agents) -> None:
    import asyncio
    from contextlib import suppress

    from .agents import FRESH_S

    while True:
        await asyncio.sleep(FRESH_S)
        with suppress(Exception):
            await agents.current()


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """``pml keys`` and ``pml access``."""
    from . import command_access, command_keys

    command_keys.add(subcommands)
    command_access.add(subcommands)
