"""Hook plugin ``search``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Offer, hookimpl
from pml_kit.offers import SEARCH

from .settings import Settings, cache_folder

if TYPE_CHECKING:
    from pml_hookspecs import Services


settings_type = Settings


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    """The index."""
    from .index import Index

    settings = services.settings or Settings()
    return [Offer(SEARCH, Index(services.log, cache_folder() if settings.cache else None, services, settings))]


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """``pml search``."""
    from .command import add

    add(subcommands)
