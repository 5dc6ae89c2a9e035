"""The stream for what a server says without being asked (revisions with a handshake)."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from pml_hookspecs import TransportError
from pml_kit.jsonrpc.pending_requests import again

from .errors import RefusedError, UnreachableError
from .events import Events

if TYPE_CHECKING:
    from collections.abc import Coroutine

    import httpx2

    from .connection import Connection
    from .handshake import Handshake
    from .options import Target
    from .settings import Settings

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 30.0
GIVE_UP_AFTER = 20
"""Refusals in a row (5xx) after which the server is taken to have no such stream."""
OPENING_S = 5.0
"""Longest that requests wait for a server to say whether it has such a stream: some say nothing before they have
something to send on it [s]."""
NOT_FOUND = 404
EVENTS = "text/event-stream"


def pause(attempt: int, retry_s: float | None) -> float:
    """How long to wait before connecting again [s]: what the server asked for, or longer each time."""
    growing = min(FIRST_PAUSE_S * 2.0 ** min(attempt, 20), LONGEST_PAUSE_S)
    if retry_s is None:
        return growing * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load
    return retry_s if attempt == 0 else max(retry_s, growing)


class SessionLink(Protocol):
    """What such a stream uses of the link whose session it belongs to."""

    target: Target
    settings: Settings
    connection: Connection
    handshake: Handshake
    log: Any

    def start_apart(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Run ``work`` until the link ends, in a context that belongs to no request."""
        ...

    async def follow(self, response: httpx2.Response, events: Events, call: None) -> None:
        """Take what a stream brings until it ends."""
        ...

    async def renew(self) -> None:
        """Make the session anew, because the server has lost it.

        Raises:
            TransportError: It could not be made.
        """
        ...

    def end(self, error: TransportError | None) -> None:
        """The link is over."""
        ...


class StandaloneStream:
    """Keeps the stream open while the session lasts."""

    def __init__(self, link: SessionLink) -> None:
        """Prepare; nothing is opened."""
        self._link = link
        self._task: asyncio.Task[Any] | None = None
        self._tried = asyncio.Event()

    async def open(self) -> None:
        """Open it, anew if it is open; returns when the server has opened or refused it, or says neither for long."""
        self.close()
        self._tried = tried = asyncio.Event()
        name = f"{self._link.target.peer}: standalone stream"
        self._task = self._link.start_apart(self._listen(tried), name=name)
        with suppress(TimeoutError):
            async with asyncio.timeout(OPENING_S):
                await tried.wait()

    def close(self) -> None:
        """Close it."""
        self._tried.set()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
        self._task = None

    async def _listen(self, tried: asyncio.Event) -> None:
        link, attempt, opened = self._link, 0, False
        events = Events(link.settings.max_message_bytes)
        while True:
            before, last_id, retry_s = link.handshake.number, events.last_id, events.retry_s
            events = Events(link.settings.max_message_bytes)
            events.last_id, events.retry_s = last_id, retry_s
            began = asyncio.get_running_loop().time()
            try:
                if not await self._follow(events, tried):
                    return
                opened = True
            except UnreachableError as error:
                link.end(again(error))
                return
            except RefusedError as error:
                if error.status == NOT_FOUND and opened:
                    await self._renew()
                    return
                if not error.retryable or attempt >= GIVE_UP_AFTER:
                    link.log.info("http.no_standalone_stream", peer=link.target.peer, problem=str(error))
                    return
            except TransportError as error:
                if not error.retryable:
                    link.log.warning("http.standalone_stream_given_up", peer=link.target.peer, problem=str(error))
                    return
                opened = True
                link.log.debug("http.standalone_stream_broke", peer=link.target.peer, problem=str(error))
            finally:
                tried.set()
            if before != link.handshake.number:
                return
            lived = asyncio.get_running_loop().time() - began
            attempt = 0 if events.last_id != last_id or lived > LONGEST_PAUSE_S else attempt + 1
            await asyncio.sleep(pause(attempt, events.retry_s))

    async def _follow(self, events: Events, tried: asyncio.Event) -> bool:
        """Take what the stream brings until it ends. False when there is no stream to be had."""
        link = self._link
        headers = {"Accept": EVENTS, **link.handshake.headers}
        if events.last_id is not None:
            headers["Last-Event-ID"] = events.last_id
        async with link.connection.send("GET", headers) as response:
            if response.status_code >= 300:  # noqa: PLR2004 - no success
                raise await link.connection.failure(response)
            if not response.headers.get("content-type", "").lower().startswith(EVENTS):
                return False
            tried.set()
            await link.follow(response, events, None)
        return True

    async def _renew(self) -> None:
        try:
            await self._link.renew()
        except TransportError as error:
            self._link.log.warning("http.session_not_renewed", peer=self._link.target.peer, problem=str(error))
