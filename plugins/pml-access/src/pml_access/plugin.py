"""Hook plugin ``access``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pml_hookspecs import hookimpl

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Identities, NamedTools, Services, ToolFilter, Wrapper

    from .agents import Agents
    from .identities import KeyIdentities

settings_type = Settings
_parts: WeakKeyDictionary[Any, tuple[Agents, KeyIdentities]] = WeakKeyDictionary()
"""What the hooks of one gateway share, by its catalog: services are made anew when the settings change."""


def _parts_of(services: Services) -> tuple[Agents, KeyIdentities]:
    from .agents import Agents
    from .identities import KeyIdentities

    settings: Settings = services.settings or Settings()
    if services.catalog not in _parts:
        agents = Agents(services, settings)
        _parts[services.catalog] = agents, KeyIdentities(services, settings, agents)
    agents, identities = _parts[services.catalog]
    if identities.settings != settings:
        identities.settings = settings
        agents.configure(settings)
    return agents, identities


@hookimpl
def pml_identities(services: Services) -> Iterable[Identities]:
    """The identities of the keys in the store."""
    return [_parts_of(services)[1]]


@hookimpl
def pml_filter_tools(services: Services) -> Iterable[ToolFilter]:
    """Keeps from each what its key, or the rules of agents, do not let it have."""
    from .filters import KeyToolFilter

    return [KeyToolFilter(_parts_of(services)[0])]


@hookimpl
def pml_named_tools(services: Services) -> Iterable[Awaitable[Sequence[NamedTools]]]:
    """What the patterns of keys that are good name."""
    return [_named(services)]


async def _named(services: Services) -> Sequence[NamedTools]:
    from datetime import UTC, datetime

    from pml_hookspecs import NamedTools

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
    try:
        yield
    finally:
        _parts.pop(services.catalog, None)


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
