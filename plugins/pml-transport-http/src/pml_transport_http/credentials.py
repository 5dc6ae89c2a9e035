"""Logins in use: the access token for each request, renewed while nobody is at hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from pml_hookspecs import TransportError

from .login import UNAUTHORIZED, AuthChallenge, Login, fresh
from .logins.keys import LoginKeyError
from .options import EXCHANGE

if TYPE_CHECKING:
    from .login_store import LoginStore
    from .logins.principal_logins import PrincipalLogins
    from .logins.token_exchange import SubjectTokens
    from .options import Target


Ask = Callable[[str], Awaitable[bool]]
"""Asks whoever runs the gateway to open an address; whether they said that they do."""


class Credentials:
    """Gives the ``Authorization`` header for each request to one server."""

    def __init__(
        self, target: Target, login_store: LoginStore | PrincipalLogins, log: Any, subjects: SubjectTokens | None = None
    ) -> None:
        """Read nothing yet. ``subjects`` are what is exchanged for tokens, where that is how they are got."""
        self._target, self._login_store, self._log, self._subjects = target, login_store, log, subjects
        self._login: Login | None = None
        self._loaded_s: float | None = None
        """When it was last read, on the loop's clock [s]."""
        self._renewing = asyncio.Lock()
        self._extending: asyncio.Task[bool] | None = None
        self._given_up: str | None = None
        """A token that could not be renewed; not tried again until there is another."""

    async def header(self) -> str | None:
        """The header for a request; None when nobody has logged in.

        Raises:
            TransportError: The authorization server cannot be reached.
        """
        now_s, fresh_s = asyncio.get_running_loop().time(), self._login_store.fresh_s
        if self._loaded_s is None or (fresh_s is not None and now_s - self._loaded_s > fresh_s):
            await self._load()
        login = self._login
        if login is None or login.token is None:
            return None
        if login.expired:
            return await self._renewed(_bearer(login), AuthChallenge(UNAUTHORIZED))
        return _bearer(login)

    async def better(self, used: str | None, refused: AuthChallenge, ask: Ask | None) -> str | None:
        """The header to use after the server has refused ``used``; None when only a new login helps.

        Raises:
            TransportError: The authorization server cannot be reached, or gives nothing to a machine.
        """
        machine = self._target.login is not None and self._target.login.machine
        if refused.status == UNAUTHORIZED or machine:
            return await self._renewed(used, refused)
        await self._load()
        login = self._login
        if login is None or login.token is None or _bearer(login) != used:
            return _bearer(login)
        if self._target.principal:  # whoever it is is asked by those who know who calls
            login.members["missed"] = list(refused.scopes)
            await self._keep(login)
            return None
        if self._extending is None or self._extending.done():
            # A task of its own: a human may take longer than the request has, and the next one is to find the login.
            self._extending = asyncio.get_running_loop().create_task(self._extend(login, refused, ask))
        return _bearer(self._login) if await asyncio.shield(self._extending) else None

    async def _renewed(self, used: str | None, refused: AuthChallenge) -> str | None:
        async with self._renewing, self._login_store.lease(self._target.name):
            # Another request, another gateway or a login meanwhile may have brought a new one.
            await self._load()
            login = self._login
            if self._target.login is not None and self._target.login.machine:
                login = self._login = login or fresh(self._target)
            elif login is None or login.token is None:
                return None
            if login.token is not None and _bearer(login) != used and not login.expired:
                return _bearer(login)
            if login.token is not None and login.token == self._given_up:
                return None
            before = login.token
            if not await self._refresh(login, refused):
                self._given_up = before
                return None
            await self._keep(login)
            return _bearer(login)

    async def _extend(self, login: Login, refused: AuthChallenge, ask: Ask | None) -> bool:
        async def send(url: str) -> None:
            if ask is None or not await ask(url):
                raise TransportError("nobody was there to agree to it", retryable=False)

        oauth = await asyncio.to_thread(_import_oauth)
        try:
            self._login = await oauth.log_in(self._target, login, send, refused)
        except TransportError as error:
            self._log.info("http.no_login_for_more", server=self._target.name, problem=str(error))
            login.members["missed"] = list(refused.scopes)
            await self._keep(login)
            return False
        await self._keep(self._login)
        return True

    def close(self) -> None:
        """Wait for nobody any more."""
        if self._extending is not None:
            self._extending.cancel()

    async def _load(self) -> None:
        # Servers that need no login must not suffer from a store in trouble.
        try:
            text = await self._login_store.get(self._target.name)
        except Exception as error:
            whose, encrypted = self._target.principal, isinstance(error, LoginKeyError)
            machine = self._target.login is not None and self._target.login.machine
            if (whose or encrypted) and not (machine and encrypted):
                of = f" of {whose!r}" if whose else ""
                what = f"the login{of} at {self._target.peer} cannot be read: {error}"
                raise TransportError(what, retryable=True) from error
            self._log.warning("http.logins_unreadable", server=self._target.name, problem=str(error))
            return
        self._login = Login.read(text, self._target)
        self._loaded_s = asyncio.get_running_loop().time()

    async def _keep(self, login: Login) -> None:
        try:
            await self._login_store.put(self._target.name, login.text)
        except Exception as error:
            self._log.error("http.login_not_kept", server=self._target.name, problem=str(error))

    async def _refresh(self, login: Login, refused: AuthChallenge) -> bool:
        without_human = self._target.login is not None and self._target.login.machine
        if not without_human and not login.renewable:
            return False
        # In a thread: the SDK takes half a second to import, in which the gateway would stand still.
        oauth = await asyncio.to_thread(_import_oauth)
        if without_human:
            await self._obtain(login, refused)
            renewed = True
        else:
            renewed = await oauth.refresh(self._target, login)
        self._log.info("http.login_renewed" if renewed else "http.login_not_renewed", server=self._target.name)
        return renewed

    async def _obtain(self, login: Login, refused: AuthChallenge) -> None:
        options = self._target.login
        if options is not None and options.grant == EXCHANGE and self._subjects is not None:
            from .logins.token_exchange import exchange

            await exchange(self._target, login, self._subjects)
            return
        from . import machine_login

        await machine_login.obtain(self._target, login, refused)


def _bearer(login: Login | None) -> str | None:
    return None if login is None or login.token is None else f"Bearer {login.token}"


def _import_oauth() -> Any:
    from . import machine_login, oauth  # noqa: F401 - both take their time

    return oauth
