"""Keys that a table of SHA-256 sums knows. Whoever sends another key is not let in, and whoever sends none is left to
others; what a caller may see of the history is its own. Work that a caller left in the background ends when its key is
no longer in the table. A plugin in a file is a guard, as who offers this has to be; a distribution names itself in the
entry points of `pml.guards`, too."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pml_hookspecs import Identity, Offer, Scope, Services, Session, UnauthenticatedError, hookimpl, setting
from pml_kit.offers import IDENTITIES

PREFIX = "team_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    keys: dict[str, str] = setting(dict, "Person, by the SHA-256 of the key [hexadecimal].")


settings_type = Settings


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    return [Offer(IDENTITIES, Keys(services.settings.keys))]


class Keys:
    def __init__(self, people: Mapping[str, str]) -> None:
        self._people = people

    async def identify(self, token: str | None) -> Identity | None:
        if token is None or not token.startswith(PREFIX):
            return None
        return self._identity(hashlib.sha256(token.encode()).hexdigest())

    async def current(self, session: Session) -> Identity | None:
        if "team" not in session.scopes:
            return None
        return self._identity(next((one for one in self._people if one.startswith(session.access_key)), ""))

    def _identity(self, digest: str) -> Identity:
        if (person := self._people.get(digest)) is None:
            raise UnauthenticatedError("This key is not known. Ask your team for a new one.")
        return Identity(principal=person, access_key=digest[:8], scopes=frozenset({"team"}))

    async def scope(self, session: Session, *, results: bool) -> Scope | None:
        return Scope(principals=frozenset({session.principal})) if "team" in session.scopes else None
