"""What an ``http:`` address and its options ask for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pml_hookspecs import Endpoint, Json

OPTIONS = ("bearer", "headers", "oauth", "protocol")
OAUTH_OPTIONS = ("client_id", "client_metadata_url", "client_secret", "redirect_port", "scopes")
PROTOCOLS = ("streamable", "sse", "auto")
MAX_PORT = 65535
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """How the gateway presents itself to an authorization server."""

    client_id: str | None = None
    """None: the client registers itself."""
    client_secret: str | None = field(default=None, repr=False)
    client_metadata_url: str | None = None
    """Address of a document about this client, where the authorization server takes one instead of a registration."""
    scopes: tuple[str, ...] = ()
    """Empty: what the server asks for."""
    redirect_port: int = 0
    """Of the listener on the loopback interface that the browser comes back to; 0 for any free one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A server to reach."""

    name: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with every request, credentials included."""
    protocol: str = "streamable"
    login: Login | None = None
    """None: kept logins are not used."""

    @property
    def peer(self) -> str:
        """The server, as messages call it."""
        return f"server {self.name!r}"

    @property
    def host(self) -> str:
        """Its host name."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """Its port, also where the address gives none."""
        parts = urlsplit(self.url)
        return parts.port or (443 if parts.scheme == "https" else 80)

    @property
    def secure(self) -> bool:
        """Whether it is spoken to through TLS."""
        return self.url.startswith("https:")

    @property
    def place(self) -> str:
        """``https://host:port/path``, without what may be secret in the address."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def parse(endpoint: Endpoint) -> Target:
    """Read an endpoint's address and options.

    Raises:
        ValueError: Either is not understood; the message says what to change.
    """
    where, options = f"[servers.{endpoint.name}]", endpoint.options
    _refuse_unknown(options, OPTIONS, where)
    protocol = options.get("protocol", "streamable")
    if protocol not in PROTOCOLS:
        raise ValueError(f"{where} protocol must be one of {', '.join(PROTOCOLS)}, not {protocol!r}")
    headers = _headers(options, where)
    has_credentials = any(name.lower() == "authorization" for name in headers)
    return Target(
        name=endpoint.name,
        url=_url(endpoint.address, where),
        headers=headers,
        protocol=str(protocol),
        login=None if has_credentials else _login(options.get("oauth", True), where),
    )


def _url(address: str, where: str) -> str:
    # The address is not repeated in messages: people put tokens there.
    try:
        parts = urlsplit(address)
        usable = parts.scheme.lower() in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = None
    if not usable or not _VALUE.fullmatch(address) or " " in address:
        raise ValueError(f"{where} the address must be a URL such as https://host/mcp")
    return urlunsplit((parts.scheme.lower(), parts.netloc, parts.path or "/", parts.query, ""))


def _headers(options: Mapping[str, Json], where: str) -> dict[str, str]:
    given = options.get("headers", {})
    if not isinstance(given, dict):
        raise ValueError(f"{where} headers must be a table of texts")  # noqa: TRY004 - a mistake of the user's
    headers: dict[str, str] = {}
    for name, value in given.items():
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"{where} headers: {name!r} is no name of a header")
        headers[name] = _text(value, f"{where} headers.{name}")
    bearer = options.get("bearer")
    if bearer is None:
        return headers
    if any(name.lower() == "authorization" for name in headers):
        raise ValueError(f"{where} bearer and headers.Authorization say the same thing twice; leave one out")
    headers["Authorization"] = f"Bearer {_text(bearer, f'{where} bearer')}"
    return headers


def _text(value: Any, where: str) -> str:
    # Values are not repeated in messages: they are secrets.
    if not isinstance(value, str) or not _VALUE.fullmatch(value):
        raise ValueError(f"{where} must be a text on one line that fits into an HTTP header")
    return value.strip()


def _login(value: Any, where: str) -> Login | None:
    if isinstance(value, bool):
        return Login() if value else None
    if not isinstance(value, dict):
        raise ValueError(f"{where} oauth must be true, false or a table")  # noqa: TRY004 - a mistake of the user's
    _refuse_unknown(value, OAUTH_OPTIONS, f"{where} oauth:")
    port, scopes = value.get("redirect_port", 0), value.get("scopes", ())
    if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port <= MAX_PORT:
        raise ValueError(f"{where} oauth.redirect_port must be a port from 0 to {MAX_PORT}, not {port!r}")
    if not isinstance(scopes, (list, tuple)) or not all(isinstance(scope, str) and scope for scope in scopes):
        raise ValueError(f"{where} oauth.scopes must be a list of texts")
    texts = {}
    for name in ("client_id", "client_secret", "client_metadata_url"):
        text = value.get(name)
        if not (text is None or (isinstance(text, str) and text)):
            raise ValueError(f"{where} oauth.{name} must be a text")
        texts[name] = text
    return Login(scopes=tuple(scopes), redirect_port=port, **texts)


def _refuse_unknown(options: Iterable[str], known: tuple[str, ...], where: str) -> None:
    for name in options:
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, n=1, cutoff=0)[0]
            raise ValueError(
                f"{where} unknown option {name!r}; did you mean {near!r}? The HTTP transport knows: {', '.join(known)}"
            )
