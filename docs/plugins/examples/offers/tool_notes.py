"""What a team has found out about tools, from a configuration: shown beside what the tools say of themselves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pml_hookspecs import CatalogEntry, Offer, Services, Session, hookimpl, setting
from pml_kit.offers import TOOL_NOTES, ToolNote


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    advice: dict[str, str] = setting(dict, "What to know before a tool is called, by id.")


settings_type = Settings


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    return [Offer(TOOL_NOTES, TeamNotes(services.settings.advice))]


class TeamNotes:
    def __init__(self, advice: dict[str, str]) -> None:
        self._advice = advice

    def of(self, entry: CatalogEntry, session: Session) -> ToolNote | None:
        advice = self._advice.get(entry.id)
        return None if advice is None else ToolNote(advice=advice)
