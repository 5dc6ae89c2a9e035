"""The gateway as a resource that tokens are for. Implements :class:`pml_kit.offers.ProtectedResource`."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from pml_hookspecs import UnauthenticatedError
from pml_kit.mcp.effects import ORDER
from pml_kit.offers import INDIRECT_CALLS, MissingScopeError

from .logins import KEY_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pml_hookspecs import CatalogEntry, Identity, Services

    from .logins import Login
    from .settings import Settings

MCP = "/mcp"
WELL_KNOWN = "/.well-known/oauth-protected-resource"
SCOPE = "scope"
"""The claim whose values are scopes, which a client can ask for."""
MOST_REMEMBERED = 4096


class Resource:
    """All endpoints of the gateway: each is a resource of its own, and its address is a token's audience."""

    def __init__(self, services: Services, settings: Settings) -> None:
        self._services, self._settings = services, settings
        self._logins: OrderedDict[str, Login] = OrderedDict()

    def note(self, key: str, login: Login) -> None:
        """Know a login by its public id from now on."""
        self._logins[key] = login
        self._logins.move_to_end(key)
        if len(self._logins) > MOST_REMEMBERED:
            self._logins.popitem(last=False)

    def takes(self, audiences: Iterable[str]) -> bool:
        """Whether a token with these is for anything here."""
        return any(self._is_whole(one) or self._place(one) for one in audiences)

    def metadata(self, path: str) -> Mapping[str, Any] | None:
        """What clients read about an endpoint, or about all of them."""
        place = path.rstrip("/")
        if place and not _endpoint(place):
            return None
        scopes = [*self._settings.scopes, *(self._settings.rights if self._settings.claim == SCOPE else ())]
        found: dict[str, Any] = {
            "resource": self._settings.base + place,
            "authorization_servers": [self._settings.issuer],
            "bearer_methods_supported": ["header"],
        }
        if scopes:
            found["scopes_supported"] = list(dict.fromkeys(scopes))
        return found

    def challenge(self, path: str) -> Mapping[str, str]:
        """Where its metadata are, and what to ask for."""
        place = path.rstrip("/")
        place = place if _endpoint(place) else ""
        found = {"resource_metadata": f"{self._settings.base}{WELL_KNOWN}{place}"}
        if self._settings.scopes:
            found["scope"] = " ".join(self._settings.scopes)
        return found

    def check(self, identity: Identity, path: str) -> None:
        """See that a token is for the endpoint at ``path``, or for all; pages of plugins count as the default one."""
        if not identity.access_key.startswith(KEY_PREFIX):
            return
        login = self._logins.get(identity.access_key)
        place = path.rstrip("/")
        place = place if _endpoint(place) else MCP
        if login is None or not any(self._is_whole(one) or self._place(one) == place for one in login.audiences):
            raise UnauthenticatedError(f"The access token is not for {self._settings.base}{place}")
        if not login.values:
            raise MissingScopeError(
                "Nothing is allowed to this login: ask for another scope, or the gateway's operator for rights",
                self._settings.scopes if self._settings.claim == SCOPE else (),
            )

    def check_call(self, identity: Identity, params: Mapping[str, Any]) -> None:
        """See that a token's scopes are enough for the tool, where scopes are what counts."""
        if self._settings.claim != SCOPE or not identity.access_key.startswith(KEY_PREFIX):
            return
        login = self._logins.get(identity.access_key)
        entry = self._tool(identity, params)
        if login is None or entry is None or self._allows(entry, identity):
            return
        for scope in self._settings.rights:
            if scope not in login.values and self._allows(entry, login.identity(self._settings, (scope,))):
                wanted = (*login.values, scope)
                raise MissingScopeError(f"This needs a token with the scope {scope}", wanted)

    def _allows(self, entry: CatalogEntry, identity: Identity) -> bool:
        """As all filters say: rights are decided there, and nowhere else."""
        return self._services.catalog.allows(entry, self._services.session(identity))

    def _tool(self, identity: Identity, params: Mapping[str, Any]) -> CatalogEntry | None:
        name = params.get("name")
        if not isinstance(name, str):
            return None
        session = self._services.session(identity)
        indirect = self._services.find(INDIRECT_CALLS)
        if indirect is not None and name in {indirect(session, effects) for effects in ORDER}:
            arguments = params.get("arguments")
            name = arguments.get("name") if isinstance(arguments, dict) else None
        return self._services.catalog.resolve(name) if isinstance(name, str) else None

    def _place(self, audience: str) -> str:
        """The path of the endpoint that it is the address of; ``""`` for anything else."""
        base = self._settings.base
        return _endpoint(audience.removeprefix(base).rstrip("/")) if audience.startswith(f"{base}/") else ""

    def _is_whole(self, audience: str) -> bool:
        return audience.rstrip("/") == self._settings.base or audience in self._settings.audiences


def _endpoint(path: str) -> str:
    """The path of an MCP endpoint, ``/mcp`` or ``/mcp/NAME``, if it is one; else ``""``."""
    _, _, name = path.removeprefix(MCP).partition("/")
    whole = path == MCP or (path == f"{MCP}/{name}" and name != "" and "/" not in name)
    return path if whole and path.isprintable() and path.isascii() and not set(path) & set('"\\?#%') else ""
