"""PML transport ``http``: MCP over HTTP, in both directions and both protocol eras."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pml_hookspecs import Transport

from .settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from pml_hookspecs import Accept, Endpoint, Handler, Link, Services

    from .credentials import Credentials
    from .login_store import LoginStore
    from .options import Target

__all__ = ["Http", "Settings"]


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
        from .login_store import LoginStore

        try:
            store = self._services.store
        except RuntimeError:
            return None  # not up, so there is nothing that was kept
        return Credentials(target, LoginStore(store, self._log, keyring=self._settings.keyring), self._log)

    async def log_in(self, endpoint: Endpoint, *, show: Callable[[str], None]) -> None:
        """Let a human log in with the browser, and keep the tokens, as :class:`pml_hookspecs.Transport` says.

        Raises:
            NotImplementedError: The configuration has other credentials for the server.
            TransportError: The login failed.
        """
        from .login import Login

        target, login_store = self._login_of(endpoint)
        from . import oauth
        from .redirects import open_browser

        kept = Login.read(await login_store.get(target.name), target)
        login = await oauth.log_in(target, kept, lambda url: open_browser(url, show))
        await login_store.put(target.name, login.text)

    async def log_out(self, endpoint: Endpoint) -> None:
        """Forget the tokens.

        Raises:
            NotImplementedError: The configuration has other credentials for the server.
        """
        target, login_store = self._login_of(endpoint)
        await login_store.put(target.name, None)

    def _login_of(self, endpoint: Endpoint) -> tuple[Target, LoginStore]:
        from .login_store import LoginStore
        from .options import parse

        target = parse(endpoint)
        if target.login is None or target.login.machine or self._services is None:
            raise NotImplementedError("its credentials are in the configuration (bearer, headers or oauth)")
        return target, LoginStore(self._services.store, self._log, keyring=self._settings.keyring)

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

        await serve(endpoint, accept, started, routes or {}, self._settings, self._services, self._log)
