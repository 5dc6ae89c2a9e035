"""Parts of pages that go on by themselves, as server-sent events (WHATWG HTML, "Server-sent events").

Each event is the part as HTML, or what waits for an answer as JSON, sent when it has changed. Without a script the page
is as it was when it was loaded.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.responses import Response, StreamingResponse

from pml_console.history import RefusedError
from pml_hookspecs import UnauthenticatedError

from .approvals import summary
from .overview import mark_of, state_of

if TYPE_CHECKING:
    from pml_console.visit import Visit

NO_CONTENT = 204
"""Browsers do not ask again."""
EVERY_S = 2.0
RENDERED_S = 20.0
"""After so long it is rendered although nothing says that it differs, and a comment sent if it does not [s]."""


class Part(NamedTuple):
    """Something that pages show, and go on showing."""

    mark: Callable[[Visit], Awaitable[Any]]
    """What differs when the part does, and is asked for cheaply. RefusedError for a reader who may not have it."""
    render: Callable[[Visit], Awaitable[str]]
    """The part as it is sent."""


async def _now(visit: Visit) -> str:
    return visit.render("now_part.html", **await state_of(visit))


async def _waiting(visit: Visit) -> str:
    return json.dumps(await summary(visit))


PARTS: Mapping[str, Part] = {"now": Part(mark_of, _now), "waiting": Part(summary, _waiting)}


async def events(visit: Visit) -> Response:
    """A part of a page, or for every page what waits for an answer. Ends with the log-in."""
    part = PARTS.get(visit.request.path_params["part"])
    if part is None:
        return visit.page("problem.html", 404, problem="There is no such part of a page.")
    try:
        await part.mark(visit)
    except RefusedError:
        return Response(status_code=NO_CONTENT)
    return StreamingResponse(_changes(visit, part), media_type="text/event-stream")


async def _changes(visit: Visit, part: Part) -> AsyncIterator[str]:
    shown, mark, rendered_s = "", None, -RENDERED_S
    while not await visit.request.is_disconnected():
        browser = visit.site.sessions.of(visit.browser.id)
        if browser is None:
            return
        try:
            await visit.site.sessions.identity(browser, visit.request.state.identify)
            now = await part.mark(visit)
            if now != mark or time.monotonic() >= rendered_s + RENDERED_S:
                # Of before it was asked for: what comes meanwhile makes a difference next time.
                mark, rendered_s = now, time.monotonic()
                text = await part.render(visit)
                yield _event(text) if text != shown else ": nothing new\n\n"
                shown = text
        except (UnauthenticatedError, RefusedError):
            return
        await asyncio.sleep(EVERY_S)


def _event(text: str) -> str:
    return "".join(f"data: {line}\n" for line in text.splitlines()) + "\n"
