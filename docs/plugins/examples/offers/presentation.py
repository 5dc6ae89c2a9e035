"""Descriptions of tools in the language of those who work with them, as a table translates them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pml_hookspecs import CatalogEntry, Offer, Services, ToolId, hookimpl, setting
from pml_kit.offers import PRESENTATION, PresentedTool


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    words: dict[str, str] = setting(dict, "What is said of a tool, by its id.")


settings_type = Settings


class Translation:
    def __init__(self, words: Mapping[str, str]) -> None:
        self._words = words
        self.names: Mapping[ToolId, str] = {}

    def __call__(self, entry: CatalogEntry) -> PresentedTool | None:
        words = self._words.get(entry.id)
        return None if words is None else PresentedTool(definition={**entry.definition, "description": words})


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    return [Offer(PRESENTATION, Translation(services.settings.words))]
