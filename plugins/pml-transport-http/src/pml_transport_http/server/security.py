"""Who may talk to the listener, by Host and Origin; and where it may listen at all.

A page in the user's browser can send requests to servers on the user's machine. With a name of its own that it lets
resolve to 127.0.0.1 (DNS rebinding) it can even read the answers. Browsers always say in Host and Origin what they
take the server and the page for, so both are checked (MCP, "Streamable HTTP", security warning).
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pml_hookspecs import TransportError
from pml_kit.mcp.protocol import INVALID_REQUEST

from .http import NO_CONTENT, HttpError, Send, reply
from .listener.connections import networks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, MutableMapping
    from typing import Any

    from pml_transport_http.settings import Settings

    from .gateways.peers import Peers

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
HTTP_PORT = 80
SINGLE = (b"host", b"origin", b"authorization", b"mcp-session-id")
"""Headers of which two would be read differently by different readers."""
PREFLIGHT_S = b"600"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_binding(host: str, settings: Settings, *, required: bool = False) -> None:
    """See that the listener is not open to everybody.

    Args:
        host: Where it is to listen.
        settings: Its tokens.
        required: Whether plugins let nobody in without a key.

    Raises:
        TransportError: It would be, or a token is no good.
    """
    for name in ("trusted_proxies", "metrics_networks"):
        try:
            networks(getattr(settings, name))
        except ValueError as error:
            raise TransportError(f"{name} in [plugins.http]: {error}", retryable=False) from None
    owners: dict[str, str] = {}
    for name, said in settings.tokens.items():
        token = said if isinstance(said, str) else said.token
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise TransportError(
                f"the token of {name!r} in [plugins.http] tokens must be printable ASCII without spaces, and not empty",
                retryable=False,
            )
        if (other := owners.setdefault(token, name)) != name:
            raise TransportError(
                f"{other!r} and {name!r} in [plugins.http] tokens have the same token; give one of them another",
                retryable=False,
            )
    if not settings.tokens and not required and not is_loopback(host):
        raise TransportError(
            f"refusing to serve on {host}, which others can reach, without authentication; set tokens in "
            '[plugins.http], such as tokens = { alice = "${ALICE_TOKEN}" }, have keys be required (required = true in '
            "[plugins.access], and pml keys create), or listen on 127.0.0.1",
            retryable=False,
        )


class Guard:
    """Lets requests in or refuses them."""

    def __init__(self, settings: Settings, host: str, port: int, peers: Peers) -> None:
        """Guard a listener bound to ``host`` and ``port``, which ``peers`` reach at a URL of its own."""
        self.peers = peers
        self._port = port
        names = {f"[{host}]" if ":" in host else host}
        if is_loopback(host):
            names.update(LOOPBACK_NAMES)
        self._hosts = {f"{name}:{port}".encode() for name in names}
        if port == HTTP_PORT:
            self._hosts.update(name.encode() for name in names)
        self._hosts.add(urlsplit(peers.url).netloc.lower().encode())
        self._wildcard = not is_loopback(host) and _is_wildcard(host)
        self._origins = {f"http://{name}:{port}".encode() for name in LOOPBACK_NAMES}
        self._allowed_hosts = _patterns(settings.allowed_hosts)
        self._allowed_origins = _patterns(settings.allowed_origins)

    def check_place(self, headers: Mapping[bytes, bytes], raw: Iterable[tuple[bytes, bytes]]) -> None:
        """See that the client means this server, and that no foreign web page sent it.

        Raises:
            HttpError: With status 400 or 403.
        """
        if len(headers) != len(raw := list(raw)):
            for name in SINGLE:
                if sum(key == name for key, _ in raw) > 1:
                    raise HttpError(400, INVALID_REQUEST, f"The header {name.decode()} appears more than once")
        host = headers.get(b"host", b"").lower()
        if host not in self._hosts and not self._is_allowed_host(host):
            raise HttpError(
                403,
                INVALID_REQUEST,
                f"Host {_shown(host)} is not served here; allowed_hosts in [plugins.http] can add it",
            )
        origin = headers.get(b"origin")
        if origin is not None and not self._is_allowed_origin(origin.lower(), host):
            raise HttpError(
                403,
                INVALID_REQUEST,
                f"Web pages of {_shown(origin)} may not call this; allowed_origins in [plugins.http] can add it",
            )

    def _is_allowed_host(self, host: bytes) -> bool:
        if _matches(host, self._allowed_hosts):
            return True
        # A name can be made to lead here, an address cannot.
        return self._wildcard and _is_address(host, self._port)

    def _is_allowed_origin(self, origin: bytes, host: bytes) -> bool:
        if origin in self._origins or _matches(origin, self._allowed_origins):
            return True
        # A page of a plugin's, served here: that the host is this one has been seen to.
        return origin in (b"http://" + host, b"https://" + host)


def _patterns(entries: Iterable[str]) -> frozenset[bytes]:
    return frozenset(entry.lower().rstrip("/").encode() for entry in entries)


def _matches(value: bytes, allowed: frozenset[bytes]) -> bool:
    if not allowed:
        return False
    name, colon, port = value.rpartition(b":")
    any_port = (name if colon and port.isdigit() else value) + b":*"
    return value in allowed or any_port in allowed


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _is_address(host: bytes, port: int) -> bool:
    try:
        parts = urlsplit("//" + host.decode("ascii"))
        ipaddress.ip_address(parts.hostname or "")
        given = parts.port or HTTP_PORT
    except ValueError:
        return False
    return given == port


def _shown(value: bytes) -> str:
    return repr(value[:100].decode("latin-1"))


async def preflight(send: Send, headers: Mapping[bytes, bytes]) -> None:
    """Answer a browser that asks what a page may send."""
    allowed = headers.get(b"access-control-request-headers", b"")
    await reply(
        send,
        NO_CONTENT,
        headers=[
            (b"access-control-allow-methods", b"GET, POST, DELETE"),
            (b"access-control-allow-headers", allowed),
            (b"access-control-max-age", PREFLIGHT_S),
        ],
    )


def for_page(send: Send, origin: bytes) -> Send:
    """Let the page at ``origin`` read what is sent."""
    shared = [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", b"mcp-session-id, www-authenticate"),
        (b"vary", b"origin"),
    ]

    async def send_shared(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *shared]}
        await send(message)

    return send_shared
