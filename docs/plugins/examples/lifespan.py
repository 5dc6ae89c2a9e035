"""A file that exists while the gateway is up, for whatever supervises it. Written once every driver is ready, deleted
before any of them goes down."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pml_hookspecs import Services, hookimpl, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    path: str = setting("pml.ready", "File that exists while the gateway is up.")


settings_type = Settings


@hookimpl
def pml_lifespan(services: Services) -> Iterable[AbstractAsyncContextManager[None]]:
    return [ready(Path(services.settings.path))]


@asynccontextmanager
async def ready(path: Path) -> AsyncIterator[None]:
    path.touch()
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
