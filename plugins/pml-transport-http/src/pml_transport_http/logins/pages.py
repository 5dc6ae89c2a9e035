"""The gateway's pages for logging in at a server: whoever begins shows a key, and comes back with the same browser."""

from __future__ import annotations

import hmac
import html
import secrets
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from pml_hookspecs import TransportError, UnauthenticatedError
from pml_kit.offers import OpenRoute

from . import PATH
from .invitations import ATTEMPTS, CALLBACK, OPEN_S, PageRedirects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from .invitations import Invitation, Invitations

COOKIE = "pml_login"
MOST_BYTES = 16 * 1024
OK, SEE_OTHER, BAD, UNAUTHENTICATED, FORBIDDEN, GONE, BROKEN = 200, 303, 400, 401, 403, 410, 502
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
CLOSED = "This login was made, has expired, or never was. Call the tool again for another one."
ELSEWHERE = "This login was begun in another browser. Nothing was done. If somebody sent you here, tell them so."


def routes(invitations: Invitations) -> Sequence[OpenRoute]:
    """The pages, below ``/logins``."""

    async def callback(request: Request) -> Response:
        return await _back(invitations, request)

    async def page(request: Request) -> Response:
        invitation = invitations.find(request.path_params["id"])
        if invitation is None:
            return _shown(CLOSED, GONE)
        return await (
            _ask(invitation, request) if request.method == "GET" else _begin(invitations, invitation, request)
        )

    return [
        OpenRoute(Route(f"/{CALLBACK}", callback, methods=["GET"])),
        OpenRoute(Route("/{id}", page, methods=["GET", "POST"])),
    ]


async def _ask(invitation: Invitation, request: Request, problem: str = "", status: int = OK) -> Response:
    """The page that says what is about to happen, and asks for a key where one is needed."""
    try:
        keyless = (await request.state.identify(None)).principal == invitation.target.principal
    except UnauthenticatedError:
        keyless = False
    key = "" if keyless else '<p><label>Your key or token for PML<br><input type="password" name="key"></label></p>'
    target = invitation.target
    body = (
        f"<h1>Log in to {html.escape(target.name)}</h1>"
        f"<p>{html.escape(problem)}</p>"
        f"<p>You will be sent to where <b>{html.escape(target.place)}</b> has its accounts. What "
        f"<b>{html.escape(target.principal)}</b> then calls there through PML is done with the account that you log in "
        "to.</p><p>Go on only if you asked for this yourself. Never go on because somebody sent you this address.</p>"
        f'<form method="post">{key}<p><button>Go on</button></p></form>'
    )
    return HTMLResponse(_document(body), status, HEADERS)


async def _begin(invitations: Invitations, invitation: Invitation, request: Request) -> Response:
    """Send the browser of the invitation's principal on its way."""
    # What a page of somebody else's sends would be sent with the key of that one.
    if request.headers.get("origin", "").lower() != _origin(invitation.base):
        return _shown("This form was sent by another page.", FORBIDDEN)
    body = await request.body()
    if len(body) > MOST_BYTES:
        return _shown("The form is too long.", BAD)
    key = parse_qs(body.decode("latin-1")).get("key", [""])[0].strip()
    try:
        identity = await request.state.identify(key or None)
    except UnauthenticatedError as exc:
        return await _refused(invitation, request, str(exc))
    if identity.principal != invitation.target.principal:
        return await _refused(invitation, request, "This login is for somebody else.")
    invitation.nonce = secrets.token_urlsafe(32)
    invitation.redirects = PageRedirects(f"{invitation.base}/{PATH}/{CALLBACK}")
    try:
        url = await invitations.begin(invitation)
    except TransportError as exc:
        return _shown(f"The login cannot begin: {exc}", BROKEN)
    response = RedirectResponse(url, SEE_OTHER, HEADERS)
    secure = invitation.base.startswith("https:")
    response.set_cookie(
        COOKIE, invitation.nonce, int(OPEN_S), path=f"/{PATH}", secure=secure, httponly=True, samesite="lax"
    )
    return response


async def _refused(invitation: Invitation, request: Request, problem: str) -> Response:
    invitation.attempts += 1
    if invitation.attempts >= ATTEMPTS:
        invitation.close("somebody tried to log in with keys of others")
        return _shown(CLOSED, GONE)
    return await _ask(invitation, request, problem, UNAUTHENTICATED)


async def _back(invitations: Invitations, request: Request) -> Response:
    """The browser comes back from the authorization server."""
    query = dict(request.query_params)
    invitation = invitations.coming_back(query.get("state", ""))
    if invitation is None or invitation.redirects is None:
        return _shown(CLOSED, GONE)
    nonce = request.cookies.get(COOKIE, "").encode()
    if not hmac.compare_digest(nonce, invitation.nonce.encode()):
        invitation.close("it was finished in another browser than the one it was begun in")
        return _shown(ELSEWHERE, FORBIDDEN)
    invitation.redirects.bring(query)
    try:
        await invitation.made()
    except TransportError as exc:
        return _shown(f"The login failed: {exc}", BROKEN)
    response = _shown(
        f"{invitation.target.principal} is logged in to {invitation.target.name}. You can close this window.", OK
    )
    response.delete_cookie(COOKIE, path=f"/{PATH}")
    return response


def _origin(base: str) -> str:
    parts = urlsplit(base)
    return f"{parts.scheme}://{parts.netloc}".lower()


def _shown(text: str, status: int) -> Response:
    return HTMLResponse(_document(f"<p>{html.escape(text)}</p>"), status, HEADERS)


def _document(body: str) -> str:
    return f'<!doctype html><html lang="en"><meta charset="utf-8"><title>PML</title><body>{body}</body></html>'
