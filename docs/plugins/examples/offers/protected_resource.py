"""A protected resource: says where clients get access tokens for the gateway. Which tokens count, and for whom, an
offer of identities says. It decides what a token is for, so a plugin in a file is a guard, as who offers this has to
be; a distribution names itself in the entry points of `pml.guards`, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pml_hookspecs import Identity, Offer, Services, hookimpl, setting
from pml_kit.offers import PROTECTED_RESOURCE, MissingScopeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    issuer: str = setting("https://login.example", "Where clients get tokens.")
    url: str = setting("https://gateway.example", "How they reach the gateway.")


settings_type = Settings


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    return [Offer(PROTECTED_RESOURCE, Resource(services.settings or Settings()))]


class Resource:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def metadata(self, path: str) -> Mapping[str, Any] | None:
        if path not in ("", "/mcp"):
            return None
        return {"resource": self._settings.url + path, "authorization_servers": [self._settings.issuer]}

    def challenge(self, path: str) -> Mapping[str, str]:
        return {"resource_metadata": f"{self._settings.url}/.well-known/oauth-protected-resource/mcp"}

    def check(self, identity: Identity, path: str) -> None:
        if path.startswith("/api") and "history" not in identity.scopes:
            raise MissingScopeError("The history needs a token with the scope history", ("history",))

    def check_call(self, identity: Identity, params: Mapping[str, Any]) -> None:
        if params.get("name") == "files__write" and "write" not in identity.scopes:
            raise MissingScopeError("This needs a token with the scope write", ("write",))
