"""Hook plugin ``embeddings``. Imported by every ``pml`` command, so nothing heavy is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pml_hookspecs import hookimpl

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Check, Embedder, Services


settings_type = Settings


@hookimpl
def pml_embedders(services: Services) -> Iterable[Embedder]:
    """The configured embedder; none without configuration.

    Raises:
        ValueError: What is configured cannot work; says why and what to do.
    """
    from .embedder_choice import made

    embedder = made(services.settings or Settings(), services)
    return [] if embedder is None else [embedder]


@hookimpl
def pml_checks(services: Services) -> Iterable[Check]:
    """What is configured, and whether it works as far as that is quickly found out."""
    from .checks import checks

    return checks(services.settings or Settings())
