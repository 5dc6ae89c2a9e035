"""What no server of the team has any business to say: the names of its internal hosts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from re import escape
from typing import Any

from pml_hookspecs import Offer, Services, hookimpl, setting
from pml_kit.offers import PHRASES
from pml_kit.text.phrases import Phrase


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    domain: str = setting("corp.example", "Domain of the hosts.")


settings_type = Settings


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    domain: str = services.settings.domain

    def of_hosts() -> Iterable[Phrase]:
        reason = "it names an internal host"
        return [Phrase("host", reason, rf"\b[\w-]{{1,63}}\.{escape(domain)}\b", words=((f".{domain}",),))]

    return [Offer(PHRASES, of_hosts)]
