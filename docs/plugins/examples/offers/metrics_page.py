"""How many tools there are, for Prometheus: the gateway serves it at ``/metrics``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pml_hookspecs import Offer, Services, hookimpl
from pml_kit.offers import METRICS_PAGE


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    return [Offer(METRICS_PAGE, Tools(services))]


class Tools:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def page(self) -> str:
        return f"# TYPE team_tools gauge\nteam_tools {len(self._services.catalog)}\n"
