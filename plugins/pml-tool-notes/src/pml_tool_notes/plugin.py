"""Hook plugin ``tool_notes``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Offer, hookimpl
from pml_kit.offers import TOOL_NOTES

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services


settings_type = Settings


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    """What is known of tools; nothing where nothing is to be learned."""
    settings: Settings = services.settings or Settings()
    if not settings.learn:
        return []
    from .note_cache import NoteCache

    return [Offer(TOOL_NOTES, NoteCache(services, settings))]


@hookimpl
def pml_lifespan(services: Services) -> Iterable[AbstractAsyncContextManager[None]]:
    """Reads in the background what was known when the gateway last ran."""
    return [_life(services)]


@asynccontextmanager
async def _life(services: Services) -> AsyncIterator[None]:
    from .note_cache import NoteCache

    for _, notes in services.find_all(TOOL_NOTES):
        if isinstance(notes, NoteCache):
            services.spawn(notes.load, name="load")
    yield
