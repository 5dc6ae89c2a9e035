"""Where logins are kept: the system's keyring where there is one, or else the store."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pml_hookspecs import Store

OWNER = "http"
KEYRING_SERVICE = "pml-http"


class LoginStore:
    """Keeps the login at each server as one text, under the name of the server."""

    fresh_s: float | None = None
    """How old what was read may be when it is used; None for any age [s]."""

    def __init__(self, store: Store, log: Any, *, keyring: bool) -> None:
        """Keep them in ``store``; with ``keyring`` in the system's keyring where that is usable."""
        self._store, self._log = store, log
        self._backend: Any = find_keyring() if keyring else None

    async def get(self, server: str) -> str | None:
        """What is kept for a server; None when there is nothing."""
        if self._backend is not None:
            kept = await self._with_keyring("get_password", server)
            if isinstance(kept, str):
                return kept
        return await self._store.secrets.get(OWNER, server)

    async def put(self, server: str, value: str | None) -> None:
        """Keep ``value`` for a server; None forgets."""
        in_keyring = False
        if self._backend is not None:
            if value is not None:
                in_keyring = await self._with_keyring("set_password", server, value) is not False
            elif await self._with_keyring("get_password", server):
                await self._with_keyring("delete_password", server)
        await self._store.secrets.put(OWNER, server, None if in_keyring else value)

    def lease(self, _server: str) -> AbstractAsyncContextManager[None]:
        """Nothing: gateways that share a login renew it as they come."""
        return nullcontext()

    async def _with_keyring(self, action: str, *arguments: str) -> Any:
        """Ask the keyring; False when it fails, which a locked one does."""
        try:
            return await asyncio.to_thread(getattr(self._backend, action), KEYRING_SERVICE, *arguments)
        except Exception as error:
            self._log.warning("http.keyring_failed", action=action, problem=str(error))
            return False


def find_keyring() -> Any:
    """The system's keyring; None without the package, or without a backend that keeps anything."""
    import importlib

    try:
        keyring: Any = importlib.import_module("keyring")
    except ImportError:
        return None
    backend = keyring.get_keyring()
    # The backend that refuses everything has priority 0.
    return backend if getattr(backend, "priority", 0) > 0 else None
