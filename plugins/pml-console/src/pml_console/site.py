"""The pages: which there are, and who may see them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from pml_hookspecs import UnauthenticatedError

from .history import History, RefusedError
from .insight import insight_page
from .pages import approvals, executions, history, login, overview, report, servers, tools, updates
from .plans import capabilities, plan_page, schedules
from .security import COOKIE, HEADERS, is_ours
from .visit import CLIENT, FORM_BYTES, Site, Visit, form_of, is_too_long

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from pml_hookspecs import Services

    from .settings import Settings

SEE_OTHER, BAD_REQUEST, FORBIDDEN, TOO_LARGE = 303, 400, 403, 413

Page: TypeAlias = Callable[[Visit], Awaitable[Response]]
GET: Mapping[str, Page] = {
    "/": overview.now,
    "/history": history.history,
    "/executions/{id}": executions.execution,
    "/executions/{id}/export": executions.export,
    "/insight": insight_page.insight,
    "/approvals": approvals.waiting,
    "/report": report.report,
    "/live/{part}": updates.events,
    "/plans": plan_page.plan,
    "/capabilities": capabilities.capabilities,
    "/capabilities/{id}": capabilities.capability,
    "/schedules": schedules.schedules,
    "/tools": tools.tools,
    "/tools/{id:path}": tools.tool,
}
POST: Mapping[str, Page] = {
    "/approvals/{id}": approvals.answer,
    "/servers/{name:path}": servers.change,
    "/logout": login.log_out,
    "/plans": plan_page.attempt,
    "/capabilities/{id}": capabilities.switch,
    "/schedules/{name}": schedules.steer,
    "/tools/{id:path}": tools.attempt,
}


def routes(services: Services, settings: Settings) -> list[Route | Mount]:
    """Everything under ``/console/``."""
    site = Site(services, settings)
    pages = [
        Route(path, PageApplication(partial(_visit, site, page)), methods=[method])
        for method, of in (("GET", GET), ("POST", POST))
        for path, page in of.items()
    ]
    outside = [
        Route("/login", PageApplication(partial(login.log_in, site)), methods=["GET", "POST"]),
        Route("/enter", PageApplication(partial(login.enter, site)), methods=["GET", "POST"]),
    ]
    static = HeaderMiddleware(StaticFiles(directory=Path(__file__).parent / "static"))
    return [*outside, *pages, Mount("/static", static)]


async def _visit(site: Site, page: Page, request: Request) -> Response:
    """Answer with ``page``, to whoever is logged in; others are sent to the log-in."""
    browser = site.sessions.of(request.cookies.get(COOKIE, ""))
    if browser is None:
        return _to_log_in(site, request)
    try:
        identity = await site.sessions.identity(browser, request.state.identify)
    except UnauthenticatedError:
        return _to_log_in(site, request)
    if is_too_long(request):
        problem = f"This form is longer than {FORM_BYTES:,} bytes, or does not say how long it is. Send less at once."
        return site.page("outside.html", TOO_LARGE, problem=problem)
    form = await form_of(request)
    if request.method == "POST" and not is_ours(form, browser):
        problem = "This form is of another log-in. Load its page again and repeat it."
        return site.page("outside.html", FORBIDDEN, problem=problem)
    session = site.services.session(identity, client=CLIENT)
    visit = Visit(site, request, session, browser, History(site.services, session), form)
    try:
        return await page(visit)
    except RefusedError as exc:
        return visit.page("problem.html", BAD_REQUEST, problem=str(exc))


def _to_log_in(site: Site, request: Request) -> Response:
    if request.method != "GET" or request.path_params.get("part"):
        problem = "Nobody is logged in with this browser. Log in, and repeat it."
        return site.page("outside.html", FORBIDDEN, problem=problem)
    return RedirectResponse("/console/login", SEE_OTHER)


class HeaderMiddleware:
    """An application that answers with :data:`HEADERS`."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                ours = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *ours]}
            await send(message)

        await self._application(scope, receive, send_with_headers)


class PageApplication:
    """One page. A class, so that Starlette takes it for an application and hands it every request."""

    def __init__(self, answer: Callable[[Request], Awaitable[Response]]) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.requests import Request

        request = Request(scope, receive)
        if request.method == "POST" and not _same_site(request):
            response: Response = HTMLResponse("This form was sent by another site.", FORBIDDEN)
        else:
            response = await self._answer(request)
        await HeaderMiddleware(response)(scope, receive, send)


def _same_site(request: Request) -> bool:
    """Whether a form was sent by a page of ours, as far as the browser says so."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None and site not in ("same-origin", "none"):
        return False
    return origin is None or urlsplit(origin).netloc == request.headers.get("host", "")
