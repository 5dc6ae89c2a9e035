"""PML transport ``stdio``: JSON-RPC lines over standard input and output, in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pml_hookspecs import Transport
from pml_kit.offers import ACCESS, required

from .settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from pml_hookspecs import Accept, Endpoint, Handler, Link, Services
    from pml_kit.processes.watchdog import Watchdog

__all__ = ["Settings", "Stdio"]


class _NullLog:
    """A log that drops everything, for a transport that has no services."""

    def __getattr__(self, _level: str) -> Callable[..., None]:
        return lambda *_args, **_fields: None


class Stdio(Transport):
    """Starts servers as child processes, and serves the client that started the gateway."""

    settings_type = Settings

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        """Keep what is given; no I/O."""
        self._settings = settings or Settings()
        self._log: Any = _NullLog() if services is None else services.log
        self._services = services
        self._watchdog: Watchdog | None = None
        self._told: set[str] = set()

    def connect(self, endpoint: Endpoint, handler: Handler) -> AbstractAsyncContextManager[Link]:
        """Start a server, as :class:`pml_hookspecs.Transport` says.

        Entering returns when the process runs; the handshake is the caller's. ``endpoint.options`` may hold ``cwd``
        (folder to start in) and ``allow_concurrent_requests`` (False: one request at a time, the others wait in order
        and on their own time). The link's ``counters`` tell what was dropped or skipped.

        Raises:
            ValueError: At once, when the address or the options are not understood.
            TransportError: On entry, when the process cannot be started.
        """
        from pml_kit.processes.watchdog import Watchdog

        from .client import Server
        from .command import parse

        self._watchdog = self._watchdog or Watchdog()
        return Server(endpoint, parse(endpoint), handler, self._settings, self._log, self._watchdog, self._told)

    async def serve(
        self,
        endpoint: Endpoint,
        accept: Accept,
        *,
        started: Callable[[str], None],
        routes: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        """Serve one client on this process's standard input and output, until its end of them is closed.

        The client is whom the key in PML_API_KEY belongs to; without one, whoever started the process. When it is not
        let in, each of its requests is answered with the error that says why.

        Requests that are being answered at the end get 5 s. Until then descriptor 1 leads to standard error and
        descriptor 0 nowhere, so that neither a stray print nor a child process gets between the messages.

        Raises:
            ValueError: The address is not ``stdio:``, or there are options.
            TransportError: Standard input or output is closed.
        """
        from .listener import serve

        access = None if self._services is None else required(self._services, ACCESS)
        ask = None if access is None else access.identify
        report = None if access is None else access.report
        await serve(endpoint, accept, started, self._settings, ask, report, self._log)
