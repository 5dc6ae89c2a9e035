"""Hook plugin ``limits``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Check, hookimpl
from pml_kit.shared import GatewayParts

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services, Wrapper

    from .wrapper import Limiter

settings_type = Settings


def _made(services: Services) -> Limiter:
    from .wrapper import Limiter

    return Limiter(services, services.settings or Settings())


limiter_of = GatewayParts(_made)


@hookimpl
def pml_wrap_executor(services: Services) -> Iterable[Wrapper]:
    """The wrapper that counts and refuses; none without rules."""
    settings: Settings = services.settings or Settings()
    return [limiter_of(services)] if settings.rules else []


@hookimpl
def pml_lifespan(services: Services) -> Iterable[AbstractAsyncContextManager[None]]:
    """What goes on besides calls: budgets are written, leases renewed, use is told."""
    settings: Settings = services.settings or Settings()
    return [_life(services)] if settings.rules else []


@asynccontextmanager
async def _life(services: Services) -> AsyncIterator[None]:
    from .housekeeping import upkeep

    async with upkeep(limiter_of(services), services):
        yield


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """``pml limits``."""
    from .command import add

    add(subcommands)


@hookimpl
def pml_checks(services: Services) -> Iterable[Check]:
    """Rules for servers and tools that there are not."""
    from .checks import checks

    return checks(services)
