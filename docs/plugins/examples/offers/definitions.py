"""Definitions without what the team's clients trip over: titles that only repeat the name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pml_hookspecs import CatalogEntry, Offer, Services, hookimpl
from pml_kit.offers import DEFINITIONS


def without_title(entry: CatalogEntry) -> Mapping[str, Any] | None:
    if entry.definition.get("title") != entry.name:
        return None
    return {name: member for name, member in entry.definition.items() if name != "title"}


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    return [Offer(DEFINITIONS, without_title)]
