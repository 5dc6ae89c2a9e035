"""What is kept of a login, and what asks for one."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from .options import Target

EARLY_S = 10.0
"""How long before its end a token is renewed [s]."""
UNAUTHORIZED, FORBIDDEN = 401, 403
_MORE = re.compile(r'\berror\s*=\s*"?insufficient_scope\b')
_SCOPE = re.compile(r'\bscope\s*=\s*(?:"([^"]*)"|([^\s,"]+))')


class AuthChallenge(NamedTuple):
    """A server's answer that another token may change."""

    status: int
    challenge: str = ""
    """Its ``WWW-Authenticate``."""

    @classmethod
    def of(cls, status: int, challenge: str) -> AuthChallenge | None:
        """What an answer refuses; None when no token helps."""
        refused = status == UNAUTHORIZED or (status == FORBIDDEN and _MORE.search(challenge))
        return cls(status, challenge) if refused else None

    @property
    def scopes(self) -> tuple[str, ...]:
        """What a token would have to allow, as far as the server says."""
        found = _SCOPE.search(self.challenge)
        return tuple((found[1] or found[2] or "").split()) if found else ()


class Login:
    """What is kept of a login: tokens, the client they were given to, and where they can be renewed."""

    def __init__(self, members: dict[str, Any]) -> None:
        """Take the members of the JSON object that is kept."""
        self.members = members

    @classmethod
    def read(cls, text: str | None, target: Target) -> Login | None:
        """What was kept as ``text``; None when that is nothing, or was meant for another host."""
        if text is None:
            return None
        try:
            members = json.loads(text)
        except ValueError:
            return None
        wanted = fresh(target).members
        fits = isinstance(members, dict) and all(members.get(name) == wanted.get(name) for name in ("origin", "as"))
        return cls(members) if fits else None

    @property
    def text(self) -> str:
        """The login as it is stored."""
        return json.dumps(self.members)

    @property
    def token(self) -> str | None:
        """The access token; None before the first."""
        tokens = self.members.get("tokens")
        return tokens.get("access_token") if isinstance(tokens, dict) else None

    @property
    def renewable(self) -> bool:
        """Whether there is anything to renew it with."""
        tokens = self.members.get("tokens")
        return isinstance(tokens, dict) and bool(tokens.get("refresh_token"))

    @property
    def missed(self) -> tuple[str, ...]:
        """What a later login is to allow besides: what this one does, and what the server refused it; or nothing."""
        missed, tokens = self.members.get("missed"), self.members.get("tokens")
        if not missed:
            return ()
        return (*str((tokens or {}).get("scope") or "").split(), *missed)

    @property
    def expired(self) -> bool:
        """Whether the token's time is up, as far as that is known."""
        expires_at = self.members.get("expires_at")
        return isinstance(expires_at, (int, float)) and time.time() > expires_at - EARLY_S


def origin(target: Target) -> str:
    """Scheme, host and port: tokens go nowhere else."""
    return f"{urlsplit(target.url).scheme}://{target.host}:{target.port}"


def fresh(target: Target, **members: Any) -> Login:
    """A login that has not been made yet."""
    options = target.login
    if options is not None and options.machine:
        where = options.issuer or options.token_url
        members["as"] = [options.grant, options.client_id, where, *options.scopes]
    return Login({"origin": origin(target), **members})
