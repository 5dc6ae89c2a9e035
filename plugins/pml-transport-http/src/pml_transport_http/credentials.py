"""Logins in use: the access token for each request, renewed while nobody is at hand."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from .options import Target
    from .vault import Vault

EARLY_S = 10.0
"""How long before its end a token is renewed [s]."""


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
        fits = isinstance(members, dict) and members.get("origin") == origin(target)
        return cls(members) if fits else None

    @property
    def text(self) -> str:
        """As it is kept."""
        return json.dumps(self.members)

    @property
    def token(self) -> str | None:
        """The access token; None before the first."""
        tokens = self.members.get("tokens")
        return tokens.get("access_token") if isinstance(tokens, dict) else None

    @property
    def expired(self) -> bool:
        """Whether the token's time is up, as far as that is known."""
        expires_at = self.members.get("expires_at")
        return isinstance(expires_at, (int, float)) and time.time() > expires_at - EARLY_S


def origin(target: Target) -> str:
    """Scheme, host and port: tokens go nowhere else."""
    return f"{urlsplit(target.url).scheme}://{target.host}:{target.port}"


class Credentials:
    """Gives the ``Authorization`` header for each request to one server."""

    def __init__(self, target: Target, vault: Vault, log: Any) -> None:
        """Read nothing yet."""
        self._target, self._vault, self._log = target, vault, log
        self._login: Login | None = None
        self._loaded = False
        self._renewing = asyncio.Lock()
        self._given_up: str | None = None
        """A token that could not be renewed; not tried again until there is another."""

    async def header(self) -> str | None:
        """The header for a request; None when nobody has logged in.

        Raises:
            TransportError: The authorization server cannot be reached.
        """
        if not self._loaded:
            await self._load()
        login = self._login
        if login is None or login.token is None:
            return None
        if login.expired:
            return await self.renewed(f"Bearer {login.token}")
        return f"Bearer {login.token}"

    async def renewed(self, used: str | None) -> str | None:
        """The header to use after the server has refused ``used``; None when only a new login helps.

        Raises:
            TransportError: The authorization server cannot be reached.
        """
        async with self._renewing:
            # Another request, another gateway or a login meanwhile may have brought a new one.
            await self._load()
            login = self._login
            if login is None or login.token is None:
                return None
            if f"Bearer {login.token}" != used and not login.expired:
                return f"Bearer {login.token}"
            if login.token == self._given_up:
                return None
            before = login.token
            if not await self._refresh(login):
                self._given_up = before
                return None
            await self._keep(login)
            return f"Bearer {login.token}"

    async def _load(self) -> None:
        # Servers that need no login must not suffer from a store in trouble.
        try:
            text = await self._vault.get(self._target.name)
        except Exception as error:
            self._log.warning("http.logins_unreadable", server=self._target.name, problem=str(error))
            return
        self._login = Login.read(text, self._target)
        self._loaded = True

    async def _keep(self, login: Login) -> None:
        try:
            await self._vault.put(self._target.name, login.text)
        except Exception as error:
            self._log.error("http.login_not_kept", server=self._target.name, problem=str(error))

    async def _refresh(self, login: Login) -> bool:
        # In a thread: the SDK takes half a second to import, in which the gateway would stand still.
        oauth = await asyncio.to_thread(_import_oauth)
        renewed: bool = await oauth.refresh(self._target, login)
        self._log.info("http.login_renewed" if renewed else "http.login_not_renewed", server=self._target.name)
        return renewed


def _import_oauth() -> Any:
    from . import oauth

    return oauth
