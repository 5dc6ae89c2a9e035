"""Names on the log, once, each place from where many come without a key, for whoever watches the log to block it.
Nothing of the keys that they came with is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pml_hookspecs import Offer, Services, hookimpl, setting
from pml_kit.offers import ACCESS_WATCHERS, AccessEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    many: int = setting(20, "Refusals from one place that are worth a line.", ge=1)


settings_type = Settings


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    refused: Counter[str] = Counter()

    async def watch(event: AccessEvent) -> None:
        if event.kind != "denied" or event.session is not None:
            return
        place = event.address.rpartition(":")[0]
        refused[place] += 1
        if refused[place] == services.settings.many:
            services.log.warning("many come without a key", place=place, target=event.target, why=event.message)

    return [Offer(ACCESS_WATCHERS, watch)]
