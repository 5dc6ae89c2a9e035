"""Logins without a human: the configuration has all that it takes.

Either a client's own credentials, or those and an identity provider that vouches for a user (MCP, enterprise-managed
authorization). Imports the MCP SDK, so it is imported only when a token is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider

from pml_hookspecs import TransportError

from .login import UNAUTHORIZED
from .oauth import TIMEOUT_S, LoginTokens, drive
from .options import ASSERTION

if TYPE_CHECKING:
    from .login import AuthChallenge, Login
    from .options import Idp, Target
    from .options import Login as LoginOptions

TOKEN_TYPE = "urn:ietf:params:oauth:token-type:"  # noqa: S105 - no secret
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105


async def obtain(target: Target, login: Login, refused: AuthChallenge) -> None:
    """Get a token for what ``target`` refused, and put it into ``login``.

    Raises:
        TransportError: There is none to be had.
    """
    if target.login is None:
        raise TransportError(f"{target.peer} uses the credentials in its configuration", retryable=False)
    if refused.status == UNAUTHORIZED:
        login.members.pop("tokens", None)
    what = f"{target.peer}: no token for client_id {target.login.client_id!r} from {target.login.issuer}"
    try:
        await drive(_provider(target.url, target.login, LoginTokens(login)), target, refused)
    except httpx2.HTTPError as error:
        raise TransportError(f"{what}: {error}", retryable=True) from error
    except OAuthFlowError as error:  # may be over in a minute, which it does not tell
        raise TransportError(f"{what}: {error}", retryable=True) from error
    except Exception as error:  # whatever is wrong with a key
        raise TransportError(f"{what}: {type(error).__name__}: {error}", retryable=False) from error
    if login.token is None:
        raise TransportError(f"{what}: the server wants no login any more", retryable=True)


def _provider(url: str, options: LoginOptions, kept: LoginTokens) -> httpx2.Auth:
    client, issuer, scope = options.client_id or "", options.issuer or "", " ".join(options.scopes) or None
    secret, method = options.client_secret or "", f"client_secret_{options.client_auth or 'basic'}"
    how: Any = {"scope": scope, "issuer": issuer}
    if options.private_key is not None:
        signed = SignedJWTParameters(
            issuer=client,
            subject=client,
            signing_key=options.private_key,
            signing_algorithm=options.signing_algorithm,
        )
        return PrivateKeyJWTOAuthProvider(url, kept, client, signed.create_assertion_provider(), **how)
    how["token_endpoint_auth_method"] = method
    if options.grant != ASSERTION or options.idp is None:
        return ClientCredentialsOAuthProvider(url, kept, client, secret, **how)
    idp = options.idp

    async def vouched(audience: str, resource: str) -> str:
        return await _vouched(idp, audience, resource, scope)

    return IdentityAssertionOAuthProvider(url, kept, client, secret, assertion_provider=vouched, **how)


async def _vouched(idp: Idp, audience: str, resource: str, scope: str | None) -> str:
    """What the identity provider gives to the authorization server ``audience`` for the user (RFC 8693).

    Raises:
        OAuthFlowError: It gives nothing.
    """
    form = {
        "grant_type": TOKEN_EXCHANGE,
        "requested_token_type": f"{TOKEN_TYPE}id-jag",
        "audience": audience,
        "resource": resource,
        "subject_token": idp.id_token,
        "subject_token_type": f"{TOKEN_TYPE}id_token",
        "client_id": idp.client_id,
        **({} if scope is None else {"scope": scope}),
    }
    auth = None if idp.client_secret is None else httpx2.BasicAuth(idp.client_id, idp.client_secret)
    async with httpx2.AsyncClient(auth=auth, timeout=TIMEOUT_S) as client:
        answer = await client.post(idp.token_url, data=form)
    try:
        found = answer.json()
    except ValueError:
        found = None
    vouched = found.get("access_token") if isinstance(found, dict) else None
    if not answer.is_success or not isinstance(vouched, str):
        told = found.get("error_description") or found.get("error") if isinstance(found, dict) else None
        raise OAuthFlowError(f"the identity provider refuses the id_token (HTTP status {answer.status_code}): {told}")
    return vouched
