"""OAuth 2.1 with the SDK's provider: a login in the browser, and the renewal of its tokens.

The provider is not put on the message path: it lets one request through at a time until its answer begins.

Imports the MCP SDK, so it is imported only when somebody logs in or a token is renewed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl

from pml_hookspecs import TransportError

from .credentials import Login, origin
from .redirects import Redirects

if TYPE_CHECKING:
    from .options import Login as LoginOptions
    from .options import Target

CLIENT_NAME = "PML"
TIMEOUT_S = 30.0
UNAUTHORIZED = 401
PROBE = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
"""Any message does: a server that wants a login refuses it before it reads it."""
HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "MCP-Protocol-Version": "2025-11-25",
}

# What it logs, with a traceback, it also raises.
logging.getLogger("mcp.client.auth.oauth2").setLevel(logging.CRITICAL)

Browse = Callable[[str], Awaitable[None]]
Answer = Callable[[], Awaitable[AuthorizationCodeResult]]


class Kept:
    """The SDK's storage over a :class:`~.credentials.Login`."""

    def __init__(self, login: Login) -> None:
        """Change ``login`` as tokens come."""
        self._members = login.members

    async def get_tokens(self) -> OAuthToken | None:
        """The last ones."""
        tokens = self._members.get("tokens")
        return None if tokens is None else OAuthToken.model_validate(tokens)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep them, and when they end."""
        self._members["tokens"] = tokens.model_dump(mode="json", exclude_none=True)
        self._members["expires_at"] = None if tokens.expires_in is None else time.time() + tokens.expires_in

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """As which client."""
        client = self._members.get("client")
        return None if client is None else OAuthClientInformationFull.model_validate(client)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep it."""
        self._members["client"] = client_info.model_dump(mode="json", exclude_none=True)


def _provider(
    target: Target, login: Login, redirect_uri: str, browse: Browse | None = None, answer: Answer | None = None
) -> OAuthClientProvider:
    options = _options(target)
    metadata = OAuthClientMetadata(
        client_name=CLIENT_NAME,
        redirect_uris=[AnyUrl(redirect_uri)],
        scope=" ".join(options.scopes) or None,
        token_endpoint_auth_method="client_secret_post" if options.client_secret else "none",
    )
    return OAuthClientProvider(
        target.url, metadata, Kept(login), browse, answer, client_metadata_url=options.client_metadata_url
    )


def _options(target: Target) -> LoginOptions:
    if target.login is None:
        raise TransportError(f"{target.peer} uses the credentials in its configuration", retryable=False)
    return target.login


async def refresh(target: Target, login: Login) -> bool:
    """Renew the tokens of ``login`` in place. False when the authorization server does not, or cannot be asked to.

    Raises:
        TransportError: It cannot be reached.
    """
    provider = _provider(target, login, "http://127.0.0.1/callback")
    context, members = provider.context, login.members
    if members.get("metadata") is not None:
        context.oauth_metadata = OAuthMetadata.model_validate(members["metadata"])
    if members.get("resource") is not None:
        context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(members["resource"])
    # Long ago: what the provider finds kept it takes for valid otherwise.
    context.token_expiry_time = 1.0
    request = httpx2.Request("POST", target.url)
    flow = provider.async_auth_flow(request)
    try:
        async with httpx2.AsyncClient(timeout=TIMEOUT_S) as client:
            outgoing = await anext(flow)
            while outgoing is not request:
                outgoing = await flow.asend(await client.send(outgoing))
    except httpx2.HTTPError as error:
        raise TransportError(f"{target.peer}: the login cannot be renewed: {error}", retryable=True) from error
    except (OAuthFlowError, ValueError):
        return False
    finally:
        await flow.aclose()
    return context.is_token_valid()


async def log_in(target: Target, kept: Login | None, show: Callable[[str], None]) -> Login:
    """Let a human log in with the browser (authorization code with PKCE).

    Args:
        target: The server.
        kept: An earlier login; its registration as a client is used again where that is possible.
        show: Tells the human something.

    Raises:
        TransportError: The login failed.
    """
    options = _options(target)
    client, port = _registered(options, kept)
    async with Redirects(options.redirect_port or port, fixed=options.redirect_port != 0) as redirects:
        if client is not None and options.client_id is None and redirects.port != port:
            client = None
        login = Login({"origin": origin(target), "client": _client(options, client, redirects.address)})
        provider = _provider(
            target,
            login,
            redirects.address,
            lambda url: redirects.send(_with_scopes(url, options), show),
            redirects.answer,
        )
        try:
            async with httpx2.AsyncClient(auth=provider, timeout=TIMEOUT_S, headers=dict(target.headers)) as http:
                status = await _probe(http, target)
        except (httpx2.HTTPError, OAuthFlowError, ValueError, TimeoutError) as error:
            raise TransportError(f"the login to {target.peer} failed: {error}", retryable=False) from error
    if login.token is None:
        raise TransportError(
            f"{target.peer} does not ask for a login (HTTP status {status}); it can be used as it is", retryable=False
        )
    if status == UNAUTHORIZED:
        raise TransportError(f"{target.peer} refuses the login that has just been made", retryable=False)
    context = provider.context
    for name, found in (("metadata", context.oauth_metadata), ("resource", context.protected_resource_metadata)):
        login.members[name] = None if found is None else found.model_dump(mode="json", exclude_none=True)
    return login


async def _probe(http: httpx2.AsyncClient, target: Target) -> int:
    method, content = ("GET", None) if target.protocol == "sse" else ("POST", PROBE)
    async with http.stream(method, target.url, headers=HEADERS, content=content) as response:
        return response.status_code


def _registered(options: LoginOptions, kept: Login | None) -> tuple[dict[str, Any] | None, int]:
    """The client of an earlier login, and the port of its redirects; 0 when that does not matter."""
    client = kept.members.get("client") if kept is not None else None
    if options.client_id is not None or not isinstance(client, dict):
        return None, 0
    uris = client.get("redirect_uris") or [""]
    return client, urlsplit(str(uris[0])).port or 0


def _client(options: LoginOptions, registered: dict[str, Any] | None, redirect_uri: str) -> dict[str, Any] | None:
    """The client to log in as; None lets it register."""
    if options.client_id is None:
        return registered
    secret = {"client_secret": options.client_secret} if options.client_secret else {}
    method = "client_secret_post" if options.client_secret else "none"
    return {
        "client_id": options.client_id,
        "redirect_uris": [redirect_uri],
        "token_endpoint_auth_method": method,
        **secret,
    }


def _with_scopes(url: str, options: LoginOptions) -> str:
    """The address with the scopes that were configured: the provider puts those that the server names first."""
    if not options.scopes:
        return url
    parts = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    return urlunsplit(parts._replace(query=urlencode({**query, "scope": " ".join(options.scopes)})))
