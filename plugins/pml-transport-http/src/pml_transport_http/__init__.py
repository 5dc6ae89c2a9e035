"""PML transport ``http``: MCP over HTTP, in both directions and both protocol eras."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pml_hookspecs import Transport, TransportError
from pml_kit.offers import ACCESS, AccessEvent, OpenRoute, required

from .logins import ListenerLogins
from .logins.token_exchange import SubjectTokens
from .settings import Settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from pml_hookspecs import Accept, Endpoint, Handler, Link, Services
    from pml_kit.mcp.principal_logins import LoginInvitation

    from .credentials import Credentials
    from .login import Login
    from .login_store import LoginStore
    from .logins.invitations import Invitation, Invitations, PageRedirects
    from .logins.keys import LoginKeys
    from .logins.principal_logins import PrincipalLogins
    from .options import Target

__all__ = ["Http", "Settings"]
EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - nothing is bound here
"""Hosts of a listener that are no address of it."""


class _NullLog:
    """A log that drops everything, for a transport that has no services."""

    def __getattr__(self, _level: str) -> Callable[..., None]:
        return lambda *_args, **_fields: None


class Http(Transport):
    """Reaches servers over HTTP, and serves clients over it."""

    settings_type = Settings

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        """Keep what is given; no I/O."""
        self._settings = settings or Settings()
        self._services = services
        self._log: Any = _NullLog() if services is None else services.log
        self._subjects = SubjectTokens()
        self._invitations: Invitations | None = None
        self._pages = ""
        """Address of the pages at which people log in; ``""`` while there are none."""

    def connect(self, endpoint: Endpoint, handler: Handler) -> AbstractAsyncContextManager[Link]:
        """Reach a server, as :class:`pml_hookspecs.Transport` says.

        Entering returns when somebody listens at the address; the handshake is the caller's. ``endpoint.options`` may
        hold ``headers``, ``bearer``, ``protocol`` and ``oauth``, see the README. The link's ``counters`` tell what was
        dropped or skipped.

        Raises:
            ValueError: At once, when the address or the options are not understood.
            TransportError: On entry, when the server cannot be reached.
        """
        from .client import Server
        from .options import parse

        return Server(endpoint, parse(endpoint), handler, self._settings, self._log, self._credentials)

    def _credentials(self, target: Target) -> Credentials | None:
        """What kept logins are used through; None where the configuration has other credentials."""
        if target.login is None or self._services is None:
            return None
        from .credentials import Credentials

        try:
            kept = self._kept(target)
        except RuntimeError:
            return None  # the store is not up, so there is nothing that was kept
        return Credentials(target, kept, self._log, self._subjects)

    def _kept(self, target: Target) -> LoginStore | PrincipalLogins:
        """Where logins are kept: the principal's own, or the one that all share."""
        if self._services is None:
            raise NotImplementedError("nothing is kept here")
        if target.principal:
            from .logins.principal_logins import PrincipalLogins

            return PrincipalLogins(self._services.store.documents, self._keys(), target.principal)
        from .login_store import LoginStore

        return LoginStore(self._services.store, self._keys(), self._log, keyring=self._settings.keyring)

    def _keys(self) -> LoginKeys:
        from .logins.keys import LoginKeys, place_of

        return LoginKeys(place_of(self._settings))

    async def log_in(self, endpoint: Endpoint, *, show: Callable[[str], None]) -> None:
        """Let a human log in with the browser, and keep the tokens, as :class:`pml_hookspecs.Transport` says.

        Raises:
            NotImplementedError: The configuration has other credentials for the server.
            TransportError: The login failed.
        """
        target = self._human(endpoint)
        from .redirects import open_browser

        await self._make(target, lambda url: open_browser(url, show))

    async def log_out(self, endpoint: Endpoint) -> None:
        """Forget the tokens, and take those of one principal back where they were issued (RFC 7009).

        Raises:
            NotImplementedError: The configuration has other credentials for the server.
        """
        target = self._human(endpoint)
        kept = self._kept(target)
        login = await self._before(target) if target.principal else None
        await kept.put(target.name, None)
        if login is not None:
            from .logins.revocation import revoke

            if problem := await revoke(login):
                self._log.warning("http.tokens_not_revoked", server=target.name, problem=problem)

    async def invite(self, endpoint: Endpoint) -> LoginInvitation:
        """As :class:`pml_kit.mcp.principal_logins.PrincipalLogins` says.

        Raises:
            NotImplementedError: The configuration has other credentials for the server.
            TransportError: There is no address that its browser could reach.
        """
        if urlsplit(self._pages).hostname in EVERYWHERE:
            problem = "no browser can reach its page: set public_url in [plugins.http] to where the gateway is reached"
            raise TransportError(problem, retryable=False)
        return await self._open_invitations().to(self._human(endpoint), self._pages)

    def _open_invitations(self) -> Invitations:
        from .logins.invitations import Invitations

        if self._invitations is None:
            self._invitations = Invitations(self._log_in_invited)
        return self._invitations

    async def logins(self, endpoint: Endpoint) -> Sequence[str]:
        """As :class:`pml_kit.mcp.principal_logins.PrincipalLogins` says.

        Raises:
            NotImplementedError: The configuration has other credentials for the server.
        """
        from .logins.principal_logins import principals

        target = self._human(endpoint)
        return [] if self._services is None else await principals(self._services.store.documents, target.name)

    async def rotate(self) -> int:
        """As :class:`pml_kit.mcp.principal_logins.PrincipalLogins` says."""
        from .logins.principal_logins import rotate

        return 0 if self._services is None else await rotate(self._services.store.documents, self._keys())

    def _human(self, endpoint: Endpoint) -> Target:
        """The server, where somebody can log in to it."""
        from .options import parse

        target = parse(endpoint)
        if target.login is None or target.login.machine or self._services is None:
            raise NotImplementedError("its credentials are in the configuration (bearer, headers or oauth)")
        return target

    async def _make(
        self, target: Target, send: Callable[[str], Awaitable[None]], pages: PageRedirects | None = None
    ) -> None:
        """Have somebody log in, and keep it."""
        before = await self._before(target)
        from . import oauth
        from .logins.keys import LoginKeyError

        login = await oauth.log_in(target, before, send, pages=pages)
        try:
            await self._kept(target).put(target.name, login.text)
        except LoginKeyError as error:
            raise TransportError(f"the login cannot be kept: {error}", retryable=False) from error

    async def _before(self, target: Target) -> Login | None:
        """The login that is kept; None where there is none, or none that can be decrypted."""
        from .login import Login
        from .logins.keys import LoginKeyError

        try:
            return Login.read(await self._kept(target).get(target.name), target)
        except LoginKeyError as error:
            self._log.warning("http.login_unreadable", server=target.name, problem=str(error))
            return None

    async def _log_in_invited(self, invitation: Invitation, send: Callable[[str], Awaitable[None]]) -> None:
        target = invitation.target
        await self._make(target, send, invitation.redirects)
        if self._services is not None:
            about = {"server": target.name, "principal": target.principal, "by": target.principal}
            event = AccessEvent(kind="change", target="logins", code="login.created", details=about)
            await required(self._services, ACCESS).report(event)

    async def serve(
        self,
        endpoint: Endpoint,
        accept: Accept,
        *,
        started: Callable[[str], None],
        routes: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        """Serve clients, as :class:`pml_hookspecs.Transport` says."""
        from .server.listener.listener import serve

        def reachable(address: str) -> None:
            self._pages = self._settings.public_url.rstrip("/") or address
            started(address)

        logins = None if self._services is None else ListenerLogins(self._subjects, self._login_pages)
        await serve(endpoint, accept, reachable, routes or {}, self._settings, self._services, logins, self._log)

    def _login_pages(self) -> Sequence[OpenRoute]:
        from .logins.pages import routes

        return routes(self._open_invitations())
