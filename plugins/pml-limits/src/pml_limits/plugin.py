"""Hook plugin ``limits``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pml_hookspecs import Check, hookimpl

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services, Wrapper

    from .wrapper import Limiter

settings_type = Settings
_limiters: WeakKeyDictionary[Any, Limiter] = WeakKeyDictionary()
"""The limits of each gateway in this process, by its services."""


@hookimpl
def pml_wrap_executor(services: Services) -> Iterable[Wrapper]:
    """The wrapper that counts and refuses; without rules it lets everything pass."""
    from .wrapper import Limiter

    settings: Settings = services.settings or Settings()
    limiter = Limiter(services, settings)
    if settings.rules:
        _limiters[services] = limiter
    return [limiter]


@hookimpl
def pml_lifespan(services: Services) -> Iterable[AbstractAsyncContextManager[None]]:
    """What goes on besides calls: budgets are written, leases renewed, use is told."""
    limiter = _limiters.get(services)
    return [] if limiter is None else [_life(limiter, services)]


@asynccontextmanager
async def _life(limiter: Limiter, services: Services) -> AsyncIterator[None]:
    from .housekeeping import upkeep

    try:
        async with upkeep(limiter, services):
            yield
    finally:
        _limiters.pop(services, None)


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
