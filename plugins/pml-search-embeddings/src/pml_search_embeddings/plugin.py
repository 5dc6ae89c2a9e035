"""Hook plugin ``embeddings``. Imported by every ``pml`` command, so nothing heavy is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Offer, hookimpl
from pml_kit.offers import EMBEDDER

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Check, Services


settings_type = Settings


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    """The configured embedder; none without configuration.

    Raises:
        ValueError: What is configured cannot work; says why and what to do.
    """
    from .embedder_choice import made

    embedder = made(services.settings or Settings(), services)
    return [] if embedder is None else [Offer(EMBEDDER, embedder)]


@hookimpl
def pml_checks(services: Services) -> Iterable[Check]:
    """What is configured, and whether it works as far as that is quickly found out."""
    from .checks import checks

    return checks(services.settings or Settings())
