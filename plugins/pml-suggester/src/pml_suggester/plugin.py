"""Hook plugin ``suggester``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Offer, hookimpl
from pml_kit.offers import SUGGESTER

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Run, Services
    from pml_kit.offers import Suggestion

settings_type = Settings


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    """The planner."""
    return [Offer(SUGGESTER, Suggestions(services))]


class Suggestions:
    """Implements :class:`pml_kit.offers.Suggester`. What makes plans is loaded with the first."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def suggest(self, intent: str, run: Run, *, limit: int) -> Sequence[Suggestion]:
        """See :meth:`.planner.Planner.suggest`."""
        from .planner import Planner

        return await Planner(self._services, self._services.settings or Settings()).suggest(intent, run, limit=limit)
