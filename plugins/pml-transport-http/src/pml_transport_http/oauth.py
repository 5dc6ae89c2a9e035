"""OAuth 2.1 with the SDK's provider: a login in the browser, and the renewal of its tokens.

The provider is not put on the message path: it lets one request through at a time until its answer begins.

Imports the MCP SDK, so it is imported only when somebody logs in or a token is renewed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import issuers_match
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

from .login import UNAUTHORIZED, AuthChallenge, Login, fresh
from .redirects import Redirects

if TYPE_CHECKING:
    from .logins.invitations import PageRedirects
    from .options import Login as LoginOptions
    from .options import Target

CLIENT_NAME = "PML"
TIMEOUT_S = 30.0
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


class LoginTokens:
    """The SDK's ``TokenStorage``, kept in a :class:`~.login.Login`."""

    def __init__(self, login: Login) -> None:
        """Change ``login`` as tokens come."""
        self._members = login.members

    async def get_tokens(self) -> OAuthToken | None:
        """The tokens that were stored last."""
        tokens = self._members.get("tokens")
        return None if tokens is None else OAuthToken.model_validate(tokens)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep them, and when they end."""
        self._members["tokens"] = tokens.model_dump(mode="json", exclude_none=True)
        self._members["expires_at"] = None if tokens.expires_in is None else time.time() + tokens.expires_in

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The client that the tokens were issued to."""
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
        target.url, metadata, LoginTokens(login), browse, answer, client_metadata_url=options.client_metadata_url
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
    try:
        await drive(provider, target, None)
    except httpx2.HTTPError as error:
        raise TransportError(f"{target.peer}: the login cannot be renewed: {error}", retryable=True) from error
    except (OAuthFlowError, ValueError):
        return False
    return context.is_token_valid()


async def drive(provider: httpx2.Auth, target: Target, refused: AuthChallenge | None) -> None:
    """Let one of the SDK's providers do what it does when ``target`` refuses a request, which is not sent.

    Args:
        provider: It asks other servers, but not ``target``.
        target: The server.
        refused: How it refused the request; None: only what comes before one.

    Raises:
        httpx2.HTTPError, OAuthFlowError, ValueError: It failed.
    """
    request = httpx2.Request("POST", target.url, headers=HEADERS)
    flow = provider.async_auth_flow(request)
    try:
        async with httpx2.AsyncClient(timeout=TIMEOUT_S) as client:
            outgoing = await anext(flow)
            while outgoing is not request:
                outgoing = await flow.asend(await client.send(outgoing))
            if refused is None:
                return
            challenge = {"WWW-Authenticate": refused.challenge}
            outgoing = await flow.asend(httpx2.Response(refused.status, headers=challenge, request=request))
            while outgoing is not request:
                outgoing = await flow.asend(await client.send(outgoing))
    finally:
        await flow.aclose()


async def log_in(
    target: Target,
    kept: Login | None,
    send: Callable[[str], Awaitable[None]],
    refused: AuthChallenge | None = None,
    pages: PageRedirects | None = None,
) -> Login:
    """Let a human log in with the browser (authorization code with PKCE).

    Args:
        target: The server.
        kept: An earlier login; its registration as a client is used again where that is possible.
        send: Sends the human to an address.
        refused: How the server refused what ``kept`` may not do; the login is then for that, too.
        pages: Where the browser comes back to; None for a listener on this machine.

    Raises:
        TransportError: The login failed.
    """
    options = _options(target)
    client, port = _registered(options, kept)
    listener = Redirects(options.redirect_port or port, fixed=options.redirect_port != 0)
    async with nullcontext(pages) if pages is not None else listener as redirects:
        if client is not None and redirects.address not in client["redirect_uris"]:
            client = None
        login = fresh(target, client=_client(options, client, redirects.address))
        if refused is not None and kept is not None:
            login.members["tokens"] = kept.members.get("tokens")

        async def browse(url: str) -> None:
            _fit(provider.context, options)
            redirects.expect(url)
            await send(url if refused is not None else _with_scopes(url, provider.context, options, kept))

        provider = _provider(target, login, redirects.address, browse, redirects.answer)
        try:
            if refused is not None:
                await drive(provider, target, refused)
            else:
                async with httpx2.AsyncClient(auth=provider, timeout=TIMEOUT_S, headers=dict(target.headers)) as http:
                    _check(target, login, await _probe(http, target))
        except (httpx2.HTTPError, OAuthFlowError, ValueError, TimeoutError) as error:
            raise TransportError(f"the login to {target.peer} failed: {error}", retryable=False) from error
    context = provider.context
    found = {"metadata": context.oauth_metadata, "resource": context.protected_resource_metadata}
    for name, model in {**found, "client": context.client_info}.items():
        login.members[name] = None if model is None else model.model_dump(mode="json", exclude_none=True)
    return login


def _check(target: Target, login: Login, status: int) -> None:
    if login.token is None:
        raise TransportError(
            f"{target.peer} does not ask for a login (HTTP status {status}); it can be used as it is", retryable=False
        )
    if status == UNAUTHORIZED:
        raise TransportError(f"{target.peer} refuses the login that has just been made", retryable=False)


async def _probe(http: httpx2.AsyncClient, target: Target) -> int:
    method, content = ("GET", None) if target.protocol == "sse" else ("POST", PROBE)
    async with http.stream(method, target.url, headers=HEADERS, content=content) as response:
        return response.status_code


def _registered(options: LoginOptions, kept: Login | None) -> tuple[dict[str, Any] | None, int]:
    """The client of an earlier login, and the port of its redirects; 0 when that does not matter."""
    client = kept.members.get("client") if kept is not None else None
    if options.client_id is not None or not isinstance(client, dict):
        return None, 0
    uris = client["redirect_uris"] = [str(uri) for uri in client.get("redirect_uris") or [""]]
    return client, urlsplit(uris[0]).port or 0


def _client(options: LoginOptions, registered: dict[str, Any] | None, redirect_uri: str) -> dict[str, Any] | None:
    """The client to log in as; None lets it register."""
    if options.client_id is None:
        return registered
    secret = {"client_secret": options.client_secret} if options.client_secret else {}
    return {
        "client_id": options.client_id,
        "redirect_uris": [redirect_uri],
        "token_endpoint_auth_method": f"client_secret_{options.client_auth or 'post'}" if secret else "none",
        **secret,
    }


def _fit(context: OAuthContext, options: LoginOptions) -> None:
    """See to it that a client that was registered by hand goes where it belongs, and presents itself as wanted there.

    Raises:
        OAuthFlowError: The server names another authorization server than the configuration.
    """
    metadata, client = context.oauth_metadata, context.client_info
    if options.issuer is not None and not (metadata and issuers_match(str(metadata.issuer), options.issuer)):
        named = "none" if metadata is None else metadata.issuer
        raise OAuthFlowError(f"the authorization server is to be {options.issuer} (oauth.issuer), but it names {named}")
    if client is None or client.client_id != options.client_id or not options.client_secret or options.client_auth:
        return
    # Where the metadata does not say, it is Basic (RFC 8414, 2).
    offered = ["client_secret_post"] if metadata is None else metadata.token_endpoint_auth_methods_supported or []
    client.token_endpoint_auth_method = (
        "client_secret_post" if "client_secret_post" in offered else "client_secret_basic"
    )


def _with_scopes(url: str, context: OAuthContext, options: LoginOptions, kept: Login | None) -> str:
    """The address with all scopes to ask for: those configured, or else those named, and what was missing before."""
    parts = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    scopes = [*(options.scopes or query.get("scope", "").split()), *(kept.missed if kept is not None else ())]
    if not scopes:
        return url
    context.client_metadata.scope = " ".join(dict.fromkeys(scopes))
    return urlunsplit(parts._replace(query=urlencode({**query, "scope": context.client_metadata.scope})))
