"""Logging in and out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse, Response

from pml_console.security import address_of, forget, remember
from pml_console.sessions import TooManyAttemptsError
from pml_console.visit import CLIENT, form_of
from pml_hookspecs import UnauthenticatedError
from pml_kit.offers import ACCESS, AccessEvent, report_change, required

if TYPE_CHECKING:
    from starlette.requests import Request

    from pml_console.sessions import BrowserSession
    from pml_console.visit import Site, Visit

UNAUTHENTICATED, TOO_MANY, SEE_OTHER = 401, 429, 303
WAIT = "Too many log-ins from here have failed; wait a minute."


async def log_in(site: Site, request: Request) -> Response:
    """The page that asks for a key, and what it sends."""
    if request.method == "GET":
        return site.page("login.html", problem="")
    token = (await form_of(request)).get("token", "").strip()
    try:
        session = await site.sessions.log_in(token, request.state.identify, address_of(request))
    except TooManyAttemptsError:
        await _report(site, request, "limit.log_ins", WAIT)
        return site.page("login.html", TOO_MANY, problem=WAIT)
    except UnauthenticatedError as exc:
        await _report(site, request, "access.unauthenticated", str(exc))
        return site.page("login.html", UNAUTHENTICATED, problem=str(exc))
    return await _let_in(site, request, session)


async def enter(site: Site, request: Request) -> Response:
    """What the link of ``pml console`` leads to: a button, as a browser may follow a link ahead of its user."""
    if request.method == "GET":
        token = request.query_params.get("token", "")
        return site.page("enter.html", token=token)
    token = (await form_of(request)).get("token", "")
    try:
        session = site.sessions.enter(token, address_of(request))
    except TooManyAttemptsError:
        await _report(site, request, "limit.log_ins", WAIT)
        return site.page("outside.html", TOO_MANY, problem=WAIT)
    except UnauthenticatedError as exc:
        await _report(site, request, "access.unauthenticated", str(exc))
        return site.page("outside.html", UNAUTHENTICATED, problem=str(exc))
    return await _let_in(site, request, session)


async def log_out(visit: Visit) -> Response:
    """End this log-in, or with ``everywhere`` all of this principal."""
    sessions, everywhere = visit.site.sessions, bool(visit.form.get("everywhere"))
    about = {"everywhere": everywhere}
    await report_change(visit.site.services, "console", "console.logout", about, visit.session)
    if everywhere:
        sessions.end_all(visit.session.principal)
    sessions.end(visit.browser.id)
    response = RedirectResponse("/console/login", SEE_OTHER)
    forget(response)
    return response


async def _report(site: Site, request: Request, code: str, problem: str) -> None:
    """Tell whoever watches access that somebody was not let in, as the listener does of those who send a wrong key."""
    target = f"POST {request.url.path}"
    event = AccessEvent(kind="denied", target=target, address=address_of(request), code=code, message=problem)
    await required(site.services, ACCESS).report(event)


async def _let_in(site: Site, request: Request, session: BrowserSession) -> Response:
    identity = await site.sessions.identity(session, request.state.identify)
    event = AccessEvent(
        kind="change", target="console", code="console.login", address=address_of(request),
        session=site.services.session(identity, client=CLIENT),
    )  # fmt: skip
    await required(site.services, ACCESS).report(event)
    response = RedirectResponse("/console/", SEE_OTHER)
    secure = request.url.scheme == "https"
    remember(response, session, secure=secure, max_age_s=site.settings.session_s)
    return response
