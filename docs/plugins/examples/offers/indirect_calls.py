"""Previews and refusals that name the tool as clients spell it who put the gateway's name before its tools."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pml_hookspecs import Offer, Services, Session, hookimpl, setting
from pml_kit.mcp.effects import Effects
from pml_kit.offers import INDIRECT_CALLS


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    prefixes: dict[str, str] = setting(dict, "What a client writes before names, by the beginning of its own.")


settings_type = Settings


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    prefixes: dict[str, str] = services.settings.prefixes

    def calling(session: Session, effects: Effects) -> str:
        found = (prefix for client, prefix in prefixes.items() if session.client.startswith(client))
        return next(found, "") + "call_tool"

    return [Offer(INDIRECT_CALLS, calling)]
