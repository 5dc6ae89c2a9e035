"""The tools that a rota of people is about: a name in it that fits no tool is told at the start, and by the doctor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pml_hookspecs import Offer, Services, hookimpl, setting
from pml_kit.offers import TOOL_NAMES, NamedTools


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    people: dict[str, list[str]] = setting(dict, "Who looks after which tools, by name or pattern.")


settings_type = Settings


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    async def names() -> Sequence[NamedTools]:
        people: dict[str, list[str]] = services.settings.people
        return [NamedTools(f"plugins.{services.plugin}.people.{person}", tools) for person, tools in people.items()]

    return [Offer(TOOL_NAMES, names)]
