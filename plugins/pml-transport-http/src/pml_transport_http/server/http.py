"""Whole HTTP responses, and refusals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from pml_hookspecs import Identity, Peer, encode

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers: TypeAlias = Iterable[tuple[bytes, bytes]]

OK, ACCEPTED, NO_CONTENT = 200, 202, 204
AT_ONCE = 64 * 1024
"""Up to this size a body is copied together and written at once [bytes]."""
JSON = (b"content-type", b"application/json")
ADMISSION, ADMIT = "pml.admission", "admit"
"""Extension of the scope, and in it what is to be called when a request is let in (ASGI, "Extensions")."""
PLAIN_CODES = {401: "access.unauthenticated", 403: "access.forbidden", 503: "access.unavailable"}
"""What an error is called where it is no JSON-RPC, by HTTP status."""


class Access(NamedTuple):
    """What a client may do, as its key says."""

    principal: str
    mode: str = ""
    intent: str = ""
    scopes: frozenset[str] = frozenset()
    execution_mode: Literal["", "real", "dry_run"] = ""
    access_key: str = ""
    agent: str = ""
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    dry_run_only: bool = False

    @classmethod
    def of(cls, identity: Identity) -> Self:
        """What a key says that plugins know."""
        return cls(**{name: getattr(identity, name) for name in cls._fields})

    def identity(self) -> Identity:
        """The same, for plugins."""
        return Identity(**self._asdict())


LOCAL = Access("local")
"""Everybody where there are no tokens and no keys are needed."""


class Request(NamedTuple):
    """An HTTP request that was let in."""

    scope: Scope
    receive: Receive
    send: Send
    headers: dict[bytes, bytes]
    """By name in lower case; of a header that comes twice, the last."""
    access: Access
    endpoint: str

    def peer(self, *, stateless: bool = False) -> Peer:
        """Its client."""
        return Peer(
            address=address_of(self.scope), endpoint=self.endpoint, stateless=stateless, **self.access._asdict()
        )


def owner_of(access: Access, scope: Scope) -> str:
    """For whom a request counts: its principal, or the host it comes from where nobody needs a key."""
    if access is not LOCAL:
        return access.principal
    client = scope.get("client")
    return f"{access.principal} at {client[0] if client else 'unknown'}"


def address_of(scope: Scope) -> str:
    """Where a request comes from, ``host:port``."""
    client = scope.get("client")
    if not client:
        return "unknown"
    host, port = client
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class HttpError(Exception):
    """Why a request is not served: an HTTP status with a JSON-RPC error in the body."""

    def __init__(
        self, status: int, code: int, message: str, *, id: Any = None, data: Any = None, headers: Headers = ()
    ) -> None:
        """``id`` is that of the JSON-RPC request, where it could be read."""
        super().__init__(message)
        self.status, self.headers = status, headers
        self.code, self.message, self.id, self.data = code, message, id, data
        self.principal = ""
        """Whose request it is, where that is known."""
        self.plain = False
        """Whether it goes to one that does not speak JSON-RPC."""

    async def reply(self, send: Send) -> None:
        """Send it."""
        await reply(send, self.status, (self.body(),), (JSON, *self.headers))

    async def reply_plain(self, send: Send) -> None:
        """Send it to one that does not speak JSON-RPC."""
        error = {"code": PLAIN_CODES.get(self.status, "request.refused"), "message": self.message}
        await reply(send, self.status, (encode({"error": error}),), (JSON, *self.headers))

    def body(self) -> bytes:
        """The JSON-RPC error."""
        wire = {"code": self.code, "message": self.message}
        if self.data is not None:
            wire["data"] = self.data
        return encode({"jsonrpc": "2.0", "id": self.id, "error": wire})


async def reply(send: Send, status: int, pieces: tuple[bytes, ...] = (), headers: Headers = ()) -> None:
    """Send a whole response."""
    size = sum(map(len, pieces))
    length = () if status == NO_CONTENT else ((b"content-length", b"%d" % size),)
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *length]})
    if size <= AT_ONCE:
        await send({"type": "http.response.body", "body": b"".join(pieces)})
        return
    for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def last_of_connection(send: Send, is_last: Callable[[], bool]) -> Send:
    """Have a response say that its connection ends with it, so that the next request goes elsewhere.

    ``is_last`` is asked when it begins: a request that came before the end was known may be answered after that.
    """

    async def send_last(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start" and is_last():
            message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
        await send(message)

    return send_last
