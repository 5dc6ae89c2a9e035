"""Tokens of a server for whoever shows one of the gateway's (RFC 8693): nobody logs in a second time."""

from __future__ import annotations

import base64
import json
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from pml_hookspecs import TransportError

if TYPE_CHECKING:
    from pml_transport_http.login import Login
    from pml_transport_http.options import Target

MOST = 4096
TIMEOUT_S = 30.0
TOKEN_TYPE = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - no secret
GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
PARTS = 3


class SubjectTokens:
    """The access token that each principal came with last, while it counts. In memory alone."""

    def __init__(self) -> None:
        self._tokens: OrderedDict[str, tuple[float, str]] = OrderedDict()

    def note(self, principal: str, token: str) -> None:
        """``principal`` came with ``token``, which is known to be valid; keys of the gateway's own are passed over."""
        expires_at = _end_of(token)
        if expires_at is None or expires_at <= self._tokens.get(principal, (0.0, ""))[0]:
            return
        self._tokens[principal] = expires_at, token
        self._tokens.move_to_end(principal)
        if len(self._tokens) > MOST:
            self._tokens.popitem(last=False)

    def forget(self, principal: str, token: str) -> None:
        """``token`` counts no more."""
        if self._tokens.get(principal, (0.0, ""))[1] == token:
            del self._tokens[principal]

    def of(self, principal: str) -> str | None:
        """The token of ``principal``; None when there is none that counts now."""
        expires_at, token = self._tokens.get(principal, (0.0, ""))
        return token if expires_at > time.time() else None


def _end_of(token: str) -> float | None:
    """When a signed token (JWT) ends [Unix s]; None for what is none."""
    parts = token.split(".")
    if len(parts) != PARTS:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (ValueError, KeyError, TypeError):
        return None


async def exchange(target: Target, login: Login, subjects: SubjectTokens) -> None:
    """Get a token for ``target.principal``, and put it into ``login``.

    Raises:
        TransportError: There is none to be had.
    """
    import httpx2

    options, principal = target.login, target.principal
    if options is None or options.token_url is None:
        raise TransportError(f"{target.peer} exchanges no tokens", retryable=False)
    subject = subjects.of(principal)
    if subject is None:
        raise TransportError(
            f"{target.peer}: {principal!r} has not come with an access token that counts now, so there is none to "
            "exchange; log in to the gateway with one",
            retryable=False,
        )
    form = {
        "grant_type": GRANT,
        "subject_token": subject,
        "subject_token_type": TOKEN_TYPE,
        "requested_token_type": TOKEN_TYPE,
        **({"audience": options.audience} if options.audience else {"resource": target.url}),
        **({"scope": " ".join(options.scopes)} if options.scopes else {}),
    }
    auth = None
    if options.client_secret is not None and options.client_auth != "post":
        auth = httpx2.BasicAuth(options.client_id or "", options.client_secret)
    else:
        form |= {"client_id": options.client_id or ""}
        form |= {} if options.client_secret is None else {"client_secret": options.client_secret}
    what = f"{target.peer}: the token of {principal!r} cannot be exchanged at {options.token_url}"
    try:
        async with httpx2.AsyncClient(auth=auth, timeout=TIMEOUT_S) as client:
            answer = await client.post(options.token_url, data=form)
    except httpx2.HTTPError as error:
        raise TransportError(f"{what}: {error}", retryable=True) from error
    login.members["tokens"] = _tokens(what, answer)
    lifetime_s = login.members["tokens"].get("expires_in")
    login.members["expires_at"] = time.time() + lifetime_s if isinstance(lifetime_s, (int, float)) else None


def _tokens(what: str, answer: Any) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        found = None
    found = found if isinstance(found, dict) else {}
    if not answer.is_success or not isinstance(found.get("access_token"), str):
        told = found.get("error_description") or found.get("error")
        raise TransportError(f"{what} (HTTP status {answer.status_code}): {told}", retryable=False)
    if str(found.get("token_type", "Bearer")).lower() != "bearer":
        raise TransportError(f"{what}: it is no bearer token", retryable=False)
    return {name: found[name] for name in ("access_token", "expires_in", "scope") if name in found}
