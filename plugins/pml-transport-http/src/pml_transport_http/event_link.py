"""HTTP+SSE of revision 2024-11-05: one stream brings all answers, messages are posted to an address it names."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from pml_hookspecs import TransportError
from pml_kit.jsonrpc.pending_requests import again

from .connection import REDIRECT
from .events import Events, TooLongError
from .link import BaseLink, Call

if TYPE_CHECKING:
    import httpx2

    from pml_hookspecs import Handler

    from .connection import Connection
    from .options import Target
    from .settings import Settings

EVENTS = "text/event-stream"
NOT_FOUND = 404


class EventLink(BaseLink):
    """The link. It ends with its stream."""

    def __init__(self, target: Target, connection: Connection, handler: Handler, settings: Settings, log: Any) -> None:
        super().__init__(target, connection, handler, settings, log)
        self._slots = asyncio.Semaphore(settings.max_connections)
        self._address: asyncio.Future[str] = self._loop.create_future()

    async def open(self) -> None:
        """Open the stream, and wait for the address that messages go to."""
        listening = self.start_apart(self._listen(), name=f"{self._peer}: events")
        try:
            async with asyncio.timeout(self.settings.connect_timeout_s):
                await asyncio.shield(self._address)
        except TimeoutError:
            limit = f"{self.settings.connect_timeout_s:g} s"
            raise TransportError(
                f"{self._peer} did not say where to send messages in {limit}", retryable=True
            ) from None
        finally:
            if not self._address.done() or self._address.exception() is not None:
                listening.cancel()
                await asyncio.wait([listening])

    async def exchange(self, call: Call) -> None:
        """Send a request; the stream brings the answer."""
        async with self._slots:
            call.sent = True
            await self.post(call.body)

    async def post(self, body: bytes) -> None:
        """Send a message."""
        url = await self._address
        headers = {"Content-Type": "application/json"}
        async with self.connection.send("POST", headers, body, url=url) as response:
            if response.status_code == NOT_FOUND:
                error = TransportError(f"{self._peer} does not know the session any more", retryable=True)
                self.end(error)
                raise error
            if response.status_code >= REDIRECT:
                raise await self.connection.failure(response)
            async for _ in response.aiter_bytes():
                pass

    async def _listen(self) -> None:
        try:
            async with self.connection.send("GET", {"Accept": EVENTS}) as response:
                if response.status_code >= REDIRECT:
                    raise await self.connection.failure(response)
                if not response.headers.get("content-type", "").lower().startswith(EVENTS):
                    what = response.headers.get("content-type", "no content type")
                    raise TransportError(f"{self._peer} answers with {what} instead of events", retryable=False)
                await self._follow(response)
            error = TransportError(f"{self._peer} closed its stream of events", retryable=True)
        except TooLongError:
            limit = self.settings.max_message_bytes
            error = TransportError(
                f"{self._peer} sent more than max_message_bytes = {limit} bytes in one message", retryable=True
            )
        except TransportError as problem:
            error = problem
        if self._address.done():
            self.end(again(error))
        else:
            self._address.set_exception(error)

    async def _follow(self, response: httpx2.Response) -> None:
        events = Events(self.settings.max_message_bytes)
        async for chunk in response.aiter_bytes():
            for event in events.feed(chunk):
                if event.name == "endpoint" and not self._address.done():
                    self._address.set_result(self._absolute(event.data.decode(errors="replace")))
                elif event.name == "message":
                    self.received(event.data)
        for event in events.close():
            if event.name == "message":
                self.received(event.data)

    def _absolute(self, address: str) -> str:
        try:
            url = urljoin(self.target.url, address.strip())
            here, there = urlsplit(self.target.url), urlsplit(url)
        except ValueError as error:
            what = f"{self._peer} wants messages sent to what is no address: {error}"
            raise TransportError(what, retryable=False) from None
        if (here.scheme, here.netloc.rpartition("@")[2]) != (there.scheme, there.netloc.rpartition("@")[2]):
            # Credentials are for the server that was configured.
            raise TransportError(
                f"{self._peer} wants messages sent elsewhere, to {there.scheme}://{there.netloc}", retryable=False
            )
        return url

    async def end_session(self) -> None:
        """Closing the stream says it."""
