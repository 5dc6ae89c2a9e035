"""The login at each server that all share: kept as those of principals are, encrypted in the store."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from .logins.keys import KEYRING_SERVICE, find_keyring
from .logins.principal_logins import SHARED, PrincipalLogins

if TYPE_CHECKING:
    from pml_hookspecs import Store

    from .logins.keys import LoginKeys

OWNER = "http"


class LoginStore:
    """Keeps the login at each server as one text, under the name of the server.

    What versions before kept as it was, in the store or the system's keyring, is read once more, and encrypted then.
    """

    fresh_s: float | None = None
    """How old what was read may be when it is used; None for any age [s]."""

    def __init__(self, store: Store, keys: LoginKeys, log: Any, *, keyring: bool) -> None:
        """Keep them in ``store``; ``keyring``: versions before may have kept them in the system's."""
        self._store, self._log = store, log
        self._logins = PrincipalLogins(store.documents, keys, SHARED)
        self._backend: Any = find_keyring() if keyring else None

    async def get(self, server: str) -> str | None:
        """What is kept for a server; None when there is nothing.

        Raises:
            LoginKeyError: It cannot be decrypted.
        """
        kept = await self._logins.get(server)
        if kept is not None:
            return kept
        plain = await self._plain(server)
        if plain is not None:
            try:
                await self.put(server, plain)
            except Exception as error:
                self._log.warning("http.login_not_encrypted", server=server, problem=str(error))
        return plain

    async def put(self, server: str, value: str | None) -> None:
        """Keep ``value`` for a server; None forgets.

        Raises:
            LoginKeyError: It cannot be encrypted.
        """
        await self._logins.put(server, value)
        if await self._store.secrets.get(OWNER, server) is not None:
            await self._store.secrets.put(OWNER, server, None)
        if self._backend is not None and await self._with_keyring("get_password", server):
            await self._with_keyring("delete_password", server)

    def lease(self, _server: str) -> AbstractAsyncContextManager[None]:
        """Nothing: gateways that share a login renew it as they come."""
        return nullcontext()

    async def _plain(self, server: str) -> str | None:
        if self._backend is not None:
            kept = await self._with_keyring("get_password", server)
            if isinstance(kept, str):
                return kept
        return await self._store.secrets.get(OWNER, server)

    async def _with_keyring(self, action: str, *arguments: str) -> Any:
        """Ask the keyring; False when it fails, which a locked one does."""
        try:
            return await asyncio.to_thread(getattr(self._backend, action), KEYRING_SERVICE, *arguments)
        except Exception as error:
            self._log.warning("http.keyring_failed", action=action, problem=str(error))
            return False
