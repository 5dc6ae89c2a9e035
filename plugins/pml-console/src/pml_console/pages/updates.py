"""Parts of pages that go on by themselves, as server-sent events (WHATWG HTML, "Server-sent events").

Each event is the part as HTML, sent when it has changed. Without a script the page is as it was when it was loaded.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from starlette.responses import StreamingResponse

from pml_console.history import RefusedError
from pml_hookspecs import UnauthenticatedError

from .overview import mark_of, state_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from pml_console.visit import Visit

EVERY_S = 2.0
RENDERED_S = 20.0
"""After so long it is rendered although nothing says that it differs, and a comment sent if it does not [s]."""


async def events(visit: Visit) -> Response:
    """The first page's moving part. Ends with the log-in."""
    if visit.request.path_params["part"] != "now":
        return visit.page("problem.html", 404, problem="There is no such part of a page.")
    return StreamingResponse(_changes(visit), media_type="text/event-stream")


async def _changes(visit: Visit) -> AsyncIterator[str]:
    shown, mark, rendered_s = "", None, -RENDERED_S
    while not await visit.request.is_disconnected():
        browser = visit.site.sessions.of(visit.browser.id)
        if browser is None:
            return
        try:
            await visit.site.sessions.identity(browser, visit.request.state.identify)
            now = await mark_of(visit)
            if now != mark or time.monotonic() >= rendered_s + RENDERED_S:
                # Of before it was asked for: what comes meanwhile makes a difference next time.
                mark, rendered_s = now, time.monotonic()
                html = visit.render("now_part.html", **await state_of(visit))
                yield _event(html) if html != shown else ": nothing new\n\n"
                shown = html
        except (UnauthenticatedError, RefusedError):
            return
        await asyncio.sleep(EVERY_S)


def _event(html: str) -> str:
    return "".join(f"data: {line}\n" for line in html.splitlines()) + "\n"
