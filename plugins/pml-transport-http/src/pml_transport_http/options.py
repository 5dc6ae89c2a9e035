"""What an ``http:`` address and its options ask for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from pml_kit.mcp.principal_logins import OPTION, principal_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pml_hookspecs import Endpoint, Json

OPTIONS = ("bearer", "headers", "oauth", "protocol")
OAUTH_TEXTS = (
    "audience", "client_id", "client_metadata_url", "client_secret", "issuer", "private_key", "signing_algorithm",
    "token_url",
)  # fmt: skip
OAUTH_OPTIONS = ("client_auth", "grant", "idp", "redirect_port", "scopes", *OAUTH_TEXTS)
IDP_OPTIONS = ("client_id", "client_secret", "id_token", "token_url")
HUMAN, CLIENT, ASSERTION, EXCHANGE = GRANTS = (
    "authorization_code", "client_credentials", "identity_assertion", "token_exchange",
)  # fmt: skip
CLIENT_AUTHS = ("basic", "post")
PROTOCOLS = ("streamable", "sse", "auto")
MAX_PORT = 65535
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Idp:
    """An enterprise's identity provider, which vouches for the user to the authorization server."""

    token_url: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    id_token: str = field(repr=False)
    """Token of the user, as the identity provider issued it to ``client_id``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """How the gateway presents itself to an authorization server."""

    grant: str = HUMAN
    """One of :data:`GRANTS`; with all but the first nobody logs in."""
    issuer: str | None = None
    """The only authorization server that gets the credentials; None: the one that the server names."""
    client_auth: str | None = None
    """One of :data:`CLIENT_AUTHS`. None: as the authorization server's metadata says, or ``basic`` where nobody logs
    in, which every one must take (RFC 6749, 2.3.1)."""
    private_key: str | None = field(default=None, repr=False)
    """Private key in PEM, which signs instead of a secret."""
    signing_algorithm: str = "RS256"
    idp: Idp | None = None
    token_url: str | None = None
    """Where a principal's token is exchanged for one of the server's (RFC 8693)."""
    audience: str | None = None
    """Whom that token is for, as the authorization server calls it; the server's address if None."""
    client_id: str | None = None
    """None: the client registers itself."""
    client_secret: str | None = field(default=None, repr=False)
    client_metadata_url: str | None = None
    """Address of a document about this client, where the authorization server takes one instead of a registration."""
    scopes: tuple[str, ...] = ()
    """Empty: what the server asks for."""
    redirect_port: int = 0
    """Port of the listener on the loopback interface that the browser comes back to; 0 for any free one."""

    @property
    def machine(self) -> bool:
        """Whether nobody has to log in: the configuration has all that it takes."""
        return self.grant != HUMAN


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
    principal: str = ""
    """Whose login is used; ``""`` for the one that all share."""

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
    where, principal = f"[servers.{endpoint.name}]", principal_of(endpoint)
    options = {name: value for name, value in endpoint.options.items() if not principal or name != OPTION}
    _refuse_unknown(options, OPTIONS, where)
    protocol = options.get("protocol", "streamable")
    if protocol not in PROTOCOLS:
        raise ValueError(f"{where} protocol must be one of {', '.join(PROTOCOLS)}, not {protocol!r}")
    headers = _headers(options, where)
    has_credentials = any(name.lower() == "authorization" for name in headers)
    login = None if has_credentials else _login(options.get("oauth", True), where)
    if login is not None and login.grant == EXCHANGE and not principal:
        raise ValueError(f'{where} oauth.grant = "{EXCHANGE}" needs sharing = "per_principal"')
    return Target(
        name=endpoint.name,
        url=_url(endpoint.address, where),
        headers=headers,
        protocol=str(protocol),
        login=login,
        principal=principal,
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
    given = {name: value[name] for name in OAUTH_TEXTS if value.get(name) is not None}
    _check_texts(given, f"{where} oauth.")
    for name, known in (("grant", GRANTS), ("client_auth", CLIENT_AUTHS)):
        if name in value and value[name] not in known:
            raise ValueError(f"{where} oauth.{name} must be one of {', '.join(known)}, not {value[name]!r}")
        given |= {name: value[name]} if name in value else {}
    idp = _idp(value["idp"], f"{where} oauth.idp") if "idp" in value else None
    login = Login(scopes=tuple(scopes), redirect_port=port, idp=idp, **given)
    _check_grant(login, f"{where} oauth")
    return login


def _idp(value: Any, where: str) -> Idp:
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be a table")  # noqa: TRY004 - a mistake of the user's
    _refuse_unknown(value, IDP_OPTIONS, f"{where}:")
    _check_texts(value, f"{where}.")
    if missing := [name for name in ("token_url", "client_id", "id_token") if name not in value]:
        raise ValueError(f"{where} needs {' and '.join(missing)}")
    _url(value["token_url"], f"{where}.token_url:")
    return Idp(**value)


def _check_texts(values: Mapping[str, Any], where: str) -> None:
    # Values are not repeated in messages: they are secrets.
    for name, text in values.items():
        if not (isinstance(text, str) and text):
            raise ValueError(f"{where}{name} must be a text")


def _check_grant(login: Login, where: str) -> None:
    """Whether a login without a human has what it takes; what it does not use is a mistake as well."""
    if not login.machine:
        unused = [name for name in ("audience", "idp", "private_key", "token_url") if getattr(login, name) is not None]
        if unused:
            raise ValueError(f"{where}.{unused[0]} needs {where}.grant: one of {', '.join(GRANTS[1:])}")
        return
    if login.grant == EXCHANGE:
        if missing := [name for name in ("client_id", "token_url") if getattr(login, name) is None]:
            raise ValueError(f"{where}: grant = {login.grant!r} needs {' and '.join(missing)}")
        _url(login.token_url or "", f"{where}.token_url:")
        return
    # Whoever is sent the credentials can use them; the server must not be the one who says who that is.
    missing = [name for name in ("client_id", "issuer") if getattr(login, name) is None]
    if missing:
        raise ValueError(f"{where}: grant = {login.grant!r} needs {' and '.join(missing)}")
    if login.grant == ASSERTION and (login.client_secret is None or login.idp is None):
        raise ValueError(f"{where}: grant = {login.grant!r} needs client_secret and the table idp")
    if login.grant == CLIENT and (login.client_secret is None) == (login.private_key is None):
        raise ValueError(f"{where}: grant = {login.grant!r} needs either client_secret or private_key")


def _refuse_unknown(options: Iterable[str], known: tuple[str, ...], where: str) -> None:
    for name in options:
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, n=1, cutoff=0)[0]
            raise ValueError(
                f"{where} unknown option {name!r}; did you mean {near!r}? The HTTP transport knows: {', '.join(known)}"
            )
