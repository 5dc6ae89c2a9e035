"""Hook plugin ``suggester``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Offer, hookimpl
from pml_kit.offers import SUGGESTER

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services

settings_type = Settings


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    """The planner."""
    from .planner import Planner

    return [Offer(SUGGESTER, Planner(services, services.settings or Settings()))]
