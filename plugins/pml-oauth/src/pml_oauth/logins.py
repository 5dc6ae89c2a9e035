"""Who has logged in, with what: claims of a token as rights of the gateway's."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from pml_hookspecs import Identity, UnauthenticatedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .settings import Rights, Settings

KEY_PREFIX = "oauth-"
"""Begins the public id of each login."""
ID_BYTES = 15
RESERVED = ("system", "local")
"""Principals of the gateway's own, beside those of agents."""
AGENT_PREFIX = "agent:"
LONGEST_NAME = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """What one token says; the next token of the same client for the same person, with the same rights, is the same."""

    issuer: str
    principal: str
    client: str
    """To whom the token was given; ``""`` where it does not say."""
    values: tuple[str, ...]
    """Of the claim that rights follow from, those that are known, in the order of the settings."""
    audiences: tuple[str, ...]
    """In order."""

    @property
    def key(self) -> str:
        """Its public id."""
        said = json.dumps(asdict(self), sort_keys=True).encode()
        return KEY_PREFIX + base64.b32encode(hashlib.sha256(said).digest()[:ID_BYTES]).decode().lower()

    def identity(self, settings: Settings, more: Sequence[str] = ()) -> Identity:
        """What it may do by the settings, as if it had ``more`` values, too."""
        rights = [told for value, told in settings.rights.items() if value in self.values or value in more]
        if not rights:
            return Identity(principal=self.principal, access_key=self.key, allow=(), deny=("*",))
        return Identity(
            principal=self.principal,
            access_key=self.key,
            scopes=frozenset(scope for one in rights for scope in one.scopes),
            mode=_first(one.tools_exposure for one in rights),
            intent=_first(one.intent for one in rights),
            execution_mode=_execution_mode(rights),
            dry_run_only=any(one.dry_run_only for one in rights),
            allow=tuple(dict.fromkeys(pattern for one in rights for pattern in one.allow)),
            deny=tuple(dict.fromkeys(pattern for one in rights for pattern in one.deny)),
        )


def login_of(claims: Mapping[str, Any], settings: Settings) -> Login:
    """Who it is that comes with a token of these claims.

    Raises:
        UnauthenticatedError: It says nobody, or somebody that a token cannot stand for.
    """
    principal = claims.get(settings.principal_claim)
    if not isinstance(principal, str) or not principal.strip() or not principal.isprintable():
        raise UnauthenticatedError(f"The access token does not say whose it is: it has no {settings.principal_claim}")
    if principal in RESERVED or principal.startswith(AGENT_PREFIX) or len(principal) > LONGEST_NAME:
        raise UnauthenticatedError(f"The access token's {settings.principal_claim} cannot be a person's name here")
    client = claims.get("client_id", claims.get("azp", ""))
    given = set(_texts(_claim(claims, settings.claim)))
    return Login(
        issuer=settings.issuer,
        principal=principal,
        client=client if isinstance(client, str) else "",
        values=tuple(value for value in settings.rights if value in given),
        audiences=tuple(sorted({*_texts(claims.get("aud"), split=False)})),
    )


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """A claim of this name, which may have dots; else a member of one, by the path of names."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _texts(value: Any, *, split: bool = True) -> list[str]:
    if isinstance(value, str):
        return value.split() if split else [value]
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _first(texts: Iterable[str]) -> str:
    return next(filter(None, texts), "")


def _execution_mode(rights: Sequence[Rights]) -> Literal["", "real", "dry_run"]:
    return next((one.execution_mode for one in rights if one.execution_mode), "")
