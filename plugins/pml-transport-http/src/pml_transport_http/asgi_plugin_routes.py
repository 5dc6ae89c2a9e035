"""What plugins serve: their routes, of which nothing stays open for longer than the key that it was asked for with."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pml_hookspecs.protocol import INVALID_REQUEST

from .asgi_quotas import QuotaUse
from .asgi_replies import Access, HttpError, Receive, Scope, Send
from .asgi_stateless import EXPELLED

if TYPE_CHECKING:
    from collections.abc import MutableMapping

UNAUTHENTICATED = 401


def bounded(receive: Receive, use: QuotaUse) -> Receive:
    """The same for bodies within the limits of a principal; others are refused with status 413 or 429."""

    async def receive_bounded() -> MutableMapping[str, Any]:
        message = await receive()
        try:
            use.take(len(message.get("body", b"")))
        except HttpError as refusal:
            from starlette.exceptions import HTTPException

            raise HTTPException(refusal.status, refusal.message) from None
        return message

    return receive_bounded


class PluginResponse:
    """One response of a plugin's route."""

    def __init__(self, send: Send) -> None:
        self._send, self.task = send, asyncio.current_task()
        self.begun = self.expelled = False

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send a part of it."""
        self.begun = True
        await self._send(message)

    def expel(self) -> None:
        """End it: its key does not count any more."""
        if self.task is not None and not self.expelled:
            self.expelled = True
            self.task.cancel()


class PluginRoutes:
    """Responses of plugins' routes that are under way."""

    def __init__(self) -> None:
        self._open: dict[Access, set[PluginResponse]] = {}

    def in_use(self) -> set[Access]:
        """Senders whose requests are being answered."""
        return set(self._open)

    def expel(self, access: Access) -> None:
        """End all of one caller."""
        for page in tuple(self._open.get(access, ())):
            page.expel()

    async def serve(
        self, application: Any, scope: Scope, receive: Receive, send: Send, access: Access, use: QuotaUse
    ) -> None:
        """Have ``application`` answer, as long as the caller's key counts.

        Raises:
            HttpError: The key ended before the response began. One that had begun is broken off.
        """
        page = PluginResponse(send)
        mine = self._open.setdefault(access, set())
        mine.add(page)
        try:
            await application(scope, bounded(receive, use), page.send)
        except asyncio.CancelledError:
            if not page.expelled or page.task is None or page.task.uncancel():
                raise
            if not page.begun:
                refusal = HttpError(UNAUTHENTICATED, INVALID_REQUEST, EXPELLED.message)
                refusal.plain = True
                raise refusal from None
        finally:
            page.task = None
            mine.discard(page)
            if not mine and self._open.get(access) is mine:
                del self._open[access]
