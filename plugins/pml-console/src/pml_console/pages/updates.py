"""Parts of pages that go on by themselves, as server-sent events (WHATWG HTML, "Server-sent events").

Each event is the part as HTML, sent when it has changed. Without a script the page is as it was when it was loaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from starlette.responses import StreamingResponse

from pml_console.history import RefusedError
from pml_hookspecs import UnauthenticatedError

from .overview import state_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from pml_console.visit import Visit

EVERY_S = 2.0
SILENT_S = 20.0
"""After so long without a change a comment says that the page is still being served [s]."""


async def events(visit: Visit) -> Response:
    """The first page's moving part. Ends with the log-in."""
    if visit.request.path_params["part"] != "now":
        return visit.page("problem.html", 404, problem="There is no such part of a page.")
    return StreamingResponse(_changes(visit), media_type="text/event-stream")


async def _changes(visit: Visit) -> AsyncIterator[str]:
    shown, silent_s = "", 0.0
    while not await visit.request.is_disconnected():
        browser = visit.site.sessions.of(visit.browser.id)
        if browser is None:
            return
        try:
            await visit.site.sessions.identity(browser, visit.request.state.identify)
            html = visit.site.templates.render("now_part.html", **await state_of(visit))
        except (UnauthenticatedError, RefusedError):
            return
        silent_s += EVERY_S
        if html != shown:
            shown, silent_s = html, 0.0
            yield "".join(f"data: {line}\n" for line in html.splitlines()) + "\n"
        elif silent_s >= SILENT_S:
            silent_s = 0.0
            yield ": nothing new\n\n"
        await asyncio.sleep(EVERY_S)
