"""What every page is sent with, and what every form must carry."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from .sessions import BrowserSession

COOKIE = "pml_console"
HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
"""Pages say things of one reader, and what stands in them comes from servers and models: nothing of it is run, nobody
frames them, nothing is fetched from elsewhere, and no browser keeps them."""
FORM_TOKEN = "form_token"  # noqa: S105 - a field's name


def remember(response: Response, session: BrowserSession, *, secure: bool, max_age_s: float) -> None:
    """Have the browser say the session with each request for a page, and no script know it."""
    response.set_cookie(
        COOKIE, session.id, max_age=int(max_age_s), path="/console", secure=secure, httponly=True, samesite="strict"
    )


def forget(response: Response) -> None:
    """Have the browser forget its session."""
    response.delete_cookie(COOKIE, path="/console", httponly=True, samesite="strict")


def is_ours(form: Mapping[str, Any], session: BrowserSession) -> bool:
    """Whether a form is one of this session's pages."""
    given = form.get(FORM_TOKEN)
    return isinstance(given, str) and hmac.compare_digest(given.encode(), session.form_token.encode())


def address_of(request: Request) -> str:
    """Where a request comes from, as far as log-ins are counted by it."""
    return request.client.host if request.client else "unknown"
