"""How long calls take by a table of the operator's, where nothing is recorded: plans are estimated by it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pml_hookspecs import CatalogEntry, Offer, Services, Session, ToolCall, hookimpl, setting
from pml_kit.offers import RECORDED_ANSWERS, RecordedTool


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    durations_ms: dict[str, int] = setting(dict, "How long a call takes, by id of the tool [ms].")


settings_type = Settings


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    return [Offer(RECORDED_ANSWERS, Durations(services.settings.durations_ms))]


class Durations:
    def __init__(self, durations_ms: dict[str, int]) -> None:
        self._durations_ms = durations_ms

    async def of_tool(self, entry: CatalogEntry, session: Session) -> RecordedTool:
        known = self._durations_ms.get(entry.id)
        return RecordedTool() if known is None else RecordedTool(durations_ms=[known])

    async def answers(self, task: ToolCall, entry: CatalogEntry, session: Session) -> bool:
        return False
