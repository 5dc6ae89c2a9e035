"""The downstream direction: a connection to a server, with the link of the kind that it speaks."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pml_hookspecs import Origin, RawObject, RpcError, TransportError
from pml_kit.cleanup import finish_despite_cancel

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from pml_hookspecs import Endpoint, Handler, Link

    from .credentials import Credentials
    from .options import Target
    from .settings import Settings

FAREWELL_S = 2.0
"""Longest that the end of a session is told to a server for [s]."""
ELICITATION = "elicitation/create"
TASKS_S = 1.0
"""Time that tasks get to end after their cancellation [s]."""


async def _ask(target: Target, handler: Handler, link: Link, url: str) -> bool:
    """Ask whoever runs the gateway to log in at ``url`` for what a request of theirs needs."""
    params = {
        "mode": "url",
        "message": f"{target.peer} wants more than its login allows. Log in again to allow it.",
        "url": url,
        "elicitationId": uuid4().hex,
    }
    try:
        answer = await handler.request(ELICITATION, RawObject.of(params), Origin(None, link))
    except RpcError:
        return False
    return answer.get("action") == "accept"


class Server(AbstractAsyncContextManager["Link"]):
    """Entering looks whether the server is there, leaving ends the session. For one use."""

    _link: Any

    def __init__(
        self,
        endpoint: Endpoint,
        target: Target,
        handler: Handler,
        settings: Settings,
        log: Any,
        credentials: Callable[[Target], Credentials | None],
    ) -> None:
        """Remember what to connect to; nothing happens yet."""
        self._name, self._target, self._handler = endpoint.name, target, handler
        self._settings, self._log, self._credentials = settings, log, credentials

    async def __aenter__(self) -> Link:
        """Look whether the server is there.

        Raises:
            TransportError: It is not.
        """
        # Imported now: httpx2 takes as long as a small server.
        from .auto_detect import AutoDetectLink
        from .connection import Connection
        from .event_link import EventLink
        from .streamable import StreamableLink

        kinds: dict[str, type[StreamableLink | EventLink | AutoDetectLink]]
        kinds = {"streamable": StreamableLink, "sse": EventLink, "auto": AutoDetectLink}
        connection = Connection(self._target, self._settings, self._credentials(self._target))
        try:
            await connection.check()
            link = kinds[self._target.protocol](self._target, connection, self._handler, self._settings, self._log)
            connection.ask = partial(_ask, self._target, self._handler, link)
            await link.open()
        except BaseException:
            await connection.close()
            raise
        self._connection, self._link = connection, link
        return link

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the session, also when cancelled."""
        await finish_despite_cancel(self._close(), name=f"close server {self._name!r}")

    async def _close(self) -> None:
        lost = self._link.ended
        self._link.end(None)
        try:
            if not lost:
                await self._say_goodbye()
            await self._link.join(TASKS_S)
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(FAREWELL_S):
                    await self._connection.close()

    async def _say_goodbye(self) -> None:
        try:
            async with asyncio.timeout(FAREWELL_S):
                await self._link.end_session()
        except (TransportError, TimeoutError) as error:
            self._log.debug("http.session_not_ended", server=self._name, problem=str(error) or "timed out")
