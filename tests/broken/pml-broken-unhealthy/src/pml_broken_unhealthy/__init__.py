"""Imports and is put together well; what it does in the background fails, and its own check says so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from pml_hookspecs import Check, Services, hookimpl


async def watch() -> None:
    """Fails at once."""
    raise ConnectionError("the licence server does not answer")


@hookimpl
def pml_lifespan(services: Services) -> list[AbstractAsyncContextManager[None]]:
    """Begins what fails."""

    @asynccontextmanager
    async def living() -> AsyncIterator[None]:
        services.spawn(watch, name="watch")
        yield

    return [living()]


@hookimpl
def pml_checks(services: Services) -> list[Check]:
    """One that is not content."""
    return [Check("licence", ok=False, detail="the licence server does not answer", remedy="Start it.")]
