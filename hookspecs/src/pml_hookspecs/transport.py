"""Transports: reach a downstream server, or serve upstream clients.

A JSON-RPC connection has two equal ends: either may send requests and notifications at any time (JSON-RPC 2.0, MCP
"base protocol"). So there is one :class:`Link` to send through and one :class:`Handler` for what arrives, whichever
end the gateway is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from .types import Identity

if TYPE_CHECKING:
    from .raw import RawObject
    from .types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One ``[servers.<name>]`` table, or one of the gateway's own listeners."""

    name: str
    address: str
    """The scheme picks the transport: ``stdio:npx -y server`` (quoted as a POSIX shell would), ``https://host/mcp``
    (``https`` is read as ``http``). A stdio listener is ``stdio:``."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to the environment of a child process; values are secrets."""
    options: Mapping[str, Json] = field(default_factory=dict)
    """What the transport itself understands; it validates them."""


class TransportError(Exception):
    """The peer could not be reached or went away. ``retryable`` says whether trying again can help."""

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable


class RpcError(Exception):
    """A JSON-RPC error object: what a peer answered, or what this end answers."""

    def __init__(self, code: int, message: str, data: Json = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    def to_wire(self) -> dict[str, Json]:
        """``{"code", "message"[, "data"]}``."""
        wire: dict[str, Json] = {"code": self.code, "message": self.message}
        return wire if self.data is None else {**wire, "data": self.data}


class Link(Protocol):
    """The sending half of an open JSON-RPC connection. Safe to use from many tasks of the event loop at once.

    Knows nothing of MCP but how a request is taken back: methods are strings, params and results JSON objects.
    """

    async def request(self, method: str, params: Mapping[str, Any], *, timeout_s: float) -> RawObject:
        """Send a request and wait for the response that carries its id.

        Responses may arrive in any order. One request timing out or being cancelled affects no other: the peer is
        told (``notifications/cancelled``) and a late response is dropped and counted.

        Args:
            timeout_s: Seconds to wait, counted from the call, for writing as well as for the answer. Positive.

        Raises:
            TimeoutError: No response in time; the message names the peer and the limit.
            TransportError: The connection failed before the response came; every pending request gets this at once.
            RpcError: The peer answered with an error.
        """
        ...

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification. Queued in order and dropped when the connection is gone; never blocks or raises."""
        ...


class Origin(NamedTuple):
    """Where a request of the peer's came from."""

    id: int | str | None
    """As the peer numbered it. None where the transport asks itself, in the context of the request that it asks for:
    only whoever runs the gateway is asked that."""
    link: Link
    """For messages that belong to this request; what is sent through it while the request is being answered goes the
    way its answer goes. On a connection that has one way only, it is the connection's own link."""


class Handler(Protocol):
    """What this end does with the messages that the other end starts."""

    async def request(self, method: str, params: RawObject, origin: Origin) -> Mapping[str, Any]:
        """Answer one request. Run in a task of its own, which is cancelled when the peer takes the request back.

        Where the transport knows which request of ours made the peer ask, it runs this in that request's context
        (:mod:`contextvars`), and so it does with :meth:`notification`.

        Raises:
            RpcError: Sent to the peer as it is. Any other exception is logged and becomes code -32603.
        """
        ...

    def notification(self, method: str, params: RawObject) -> None:
        """Take note. Called in the order of arrival; must not block."""
        ...

    def closed(self, error: TransportError | None) -> None:
        """The connection is over. Called once. None when this end closed it."""
        ...


class Peer(Identity, frozen=True, kw_only=True):
    """An upstream client, as far as the listener knows it."""

    principal: str = "local"
    """As of every identity; ``"local"`` for whoever started the gateway on stdio."""
    address: str
    """``stdio`` or ``host:port``."""
    endpoint: str = "default"
    """Which of the gateway's endpoints it addresses: each has an exposure mode of its own."""
    stateless: bool = False
    """Its requests have nothing to do with each other: they may come from different people. There is then no way to
    send anything but through a request's :class:`Origin`."""


Accept: TypeAlias = Callable[[Link, Peer], Handler]
"""Called by a listener once per client connection; of stateless clients, once per principal and endpoint.

Raises:
    LookupError: There is no such endpoint. The message is for the client.
"""


class Transport(Protocol):
    """Registered in ``pml.transport`` under the address scheme it serves: ``Driver(settings, services)``.

    The name picks the driver, so core need not import any to find one. Several are active at once; each is imported
    when its scheme is first used.
    """

    def connect(self, endpoint: Endpoint, handler: Handler) -> AbstractAsyncContextManager[Link]:
        """Open a link to a downstream server.

        Entering returns once the server can take requests. Leaving closes it: pending requests fail, and a child
        process with all its descendants is gone within 5 s (stdin closed, then SIGTERM, then SIGKILL), even when the
        caller is cancelled. Left with a :class:`TimeoutError`, it adds a note to it for each thing that it knows about
        the silence: what the server said instead, say. A note is one line and continues the sentence that the error is.

        What is returned may have a method ``isolation()``, for a server that is a program of this machine: in one line
        what keeps it from the rest of the machine. It raises :class:`TransportError` where that cannot be had here.

        Raises:
            TransportError: On entry, when the server cannot be reached or started.
            ValueError: At once, when the address or ``endpoint.options`` are not understood.
        """
        ...

    async def serve(
        self,
        endpoint: Endpoint,
        accept: Accept,
        *,
        started: Callable[[str], None],
        routes: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        """Serve upstream clients until cancelled, or until there can be no more of them (stdin at its end).

        When cancelled, requests that are being answered get a few seconds to end.

        Args:
            started: Called once with the bound address as soon as clients can connect.
            routes: What plugins contribute through ``pml_routes``, by plugin; transports without routes ignore it.

        Raises:
            NotImplementedError: The transport only connects downstream.
            TransportError: The address cannot be bound, or must not be as things are configured.
            ValueError: The address or ``endpoint.options`` are not understood.
        """
        raise NotImplementedError(f"{type(self).__name__} does not serve clients")

    async def log_in(self, endpoint: Endpoint, *, show: Callable[[str], None]) -> None:
        """Let a human log in to a downstream server, and keep what it takes to connect (``pml auth login NAME``).

        Args:
            show: Tells the human something, such as the address to open.

        Raises:
            NotImplementedError: Its servers need no login.
            TransportError: The login failed.
        """
        raise NotImplementedError(f"{type(self).__name__} has no logins")

    async def log_out(self, endpoint: Endpoint) -> None:
        """Forget what :meth:`log_in` kept.

        Raises:
            NotImplementedError: Its servers need no login.
        """
        raise NotImplementedError(f"{type(self).__name__} has no logins")
