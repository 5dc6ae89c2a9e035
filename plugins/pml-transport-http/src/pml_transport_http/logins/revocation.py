"""Takes tokens back where they were issued (RFC 7009)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx2

if TYPE_CHECKING:
    from pml_transport_http.login import Login

TIMEOUT_S = 10.0
SUCCESS = 200


async def revoke(login: Login) -> str:
    """Take back the tokens of a login, the one that others are got with first; why that did not work, or ``""``."""
    members = login.members
    metadata, client = _object(members.get("metadata")), _object(members.get("client"))
    tokens, url = _object(members.get("tokens")), str(metadata.get("revocation_endpoint") or "")
    if not url:
        return "the authorization server has no way to take tokens back; they are good until they expire"
    try:
        async with httpx2.AsyncClient(timeout=TIMEOUT_S) as http:
            for kind in ("refresh_token", "access_token"):
                if token := tokens.get(kind):
                    headers, form = _presented(client)
                    form |= {"token": token, "token_type_hint": kind}
                    answer = await http.post(url, data=form, headers=headers)
                    if answer.status_code != SUCCESS:
                        return f"the authorization server does not take tokens back (HTTP status {answer.status_code})"
    except httpx2.HTTPError as error:
        return f"the authorization server cannot be reached: {error}"
    return ""


def _presented(client: dict[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """How the client presents itself: headers, and members of the form."""
    name, secret = str(client.get("client_id") or ""), client.get("client_secret")
    if secret and client.get("token_endpoint_auth_method") == "client_secret_basic":
        import base64

        pair = f"{quote(name, safe='')}:{quote(str(secret), safe='')}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}, {}
    return {}, {"client_id": name, **({"client_secret": str(secret)} if secret else {})}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
