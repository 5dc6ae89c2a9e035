"""The transport ``unix``: MCP on a socket in the file system, which only its owner can open.

``pml serve --listen unix:/run/user/1000/pml.sock`` serves clients there; a server's ``address`` may be one as well.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from pml_hookspecs import Accept, Endpoint, Handler, Link, Peer, Services, TransportError, UnauthenticatedError
from pml_kit.cleanup import finish_despite_cancel
from pml_kit.jsonrpc.streams import StreamConnection
from pml_kit.offers import ACCESS

SCHEME = "unix:"
DRAIN_S = 3.0
"""Time that requests get to be answered when the gateway stops [s]."""


class UnixTransport:
    """Implements :class:`pml_hookspecs.Transport`."""

    settings_type = None

    def __init__(self, settings: None = None, services: Services | None = None) -> None:
        self._services = services
        self._log = None if services is None else services.log

    def connect(self, endpoint: Endpoint, handler: Handler) -> AbstractAsyncContextManager[Link]:
        """To a server that listens on a socket."""
        return self._connected(endpoint.name, _path(endpoint), handler)

    @asynccontextmanager
    async def _connected(self, name: str, path: Path, handler: Handler) -> AsyncIterator[Link]:
        try:
            streams = await asyncio.open_unix_connection(path)
        except OSError as exc:
            raise TransportError(f"server {name!r} cannot be reached at {path}: {exc}", retryable=True) from exc
        connection = StreamConnection(f"server {name!r}", *streams, log=self._log)
        async with connection.open(handler):
            yield connection

    async def serve(
        self, endpoint: Endpoint, accept: Accept, *, started: Callable[[str], None],
        routes: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:  # fmt: skip
        """Serve whoever may open the socket, until cancelled."""
        path, clients, stopping = _path(endpoint), set[asyncio.Task[None]](), asyncio.Event()

        async def serve_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                peer = Peer(address=endpoint.address, **await self._identity())
            except UnauthenticatedError:
                writer.close()
                return
            connection = StreamConnection("the client", reader, writer, log=self._log)
            async with connection.open(accept(connection, peer), DRAIN_S) as reading:
                ending = asyncio.ensure_future(stopping.wait())
                await asyncio.wait((reading, ending), return_when=asyncio.FIRST_COMPLETED)
                ending.cancel()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            clients.add(client := asyncio.ensure_future(serve_client(reader, writer)))
            client.add_done_callback(clients.discard)

        listener = await asyncio.start_unix_server(connected, sock=_bound(path))
        try:
            started(endpoint.address)
            await stopping.wait()
        finally:
            listener.close()
            path.unlink(missing_ok=True)
            stopping.set()
            if clients:
                await finish_despite_cancel(_ended(clients), name="close the socket's clients")

    async def _identity(self) -> Mapping[str, Any]:
        """Who has opened it shows no key: whether that will do is said by the plugins that know keys."""
        access = None if self._services is None else self._services.find(ACCESS)
        identity = None if access is None else await access.identify(None)
        return {} if identity is None else identity.members()

    async def log_in(self, endpoint: Endpoint, *, show: Callable[[str], None]) -> None:
        raise NotImplementedError("unix has no logins")

    async def log_out(self, endpoint: Endpoint) -> None:
        raise NotImplementedError("unix has no logins")


async def _ended(clients: set[asyncio.Task[None]]) -> None:
    await asyncio.wait(list(clients), timeout=2 * DRAIN_S)


def _path(endpoint: Endpoint) -> Path:
    """The socket; ValueError for an address or an option that is none."""
    if endpoint.options:
        raise ValueError(f"{endpoint.name!r}: unknown option {next(iter(endpoint.options))!r}; unix has none")
    path = Path(endpoint.address.removeprefix(SCHEME))
    if not path.is_absolute():
        raise ValueError(f"{endpoint.name!r}: the address must be unix:/absolute/path, not {endpoint.address!r}")
    return path


def _bound(path: Path) -> socket.socket:
    """A socket there, which nobody but its owner can open; what a gateway that was killed left there is replaced."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.is_socket() and made.connect_ex(str(path)) != 0:
            path.unlink()
        made.close()
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.bind(str(path))
        path.chmod(0o600)  # nobody can connect before it listens
    except OSError as exc:
        made.close()
        raise TransportError(f"{path} cannot be bound: {exc}; end what listens there", retryable=False) from exc
    return made
