"""Where the browser comes back to after a login: a listener on the loopback interface (RFC 8252, 7.3)."""

from __future__ import annotations

import asyncio
import contextlib
import html
import webbrowser
from typing import TYPE_CHECKING, Self
from urllib.parse import parse_qs, urlsplit

from mcp.shared.auth import AuthorizationCodeResult

from pml_hookspecs import TransportError

if TYPE_CHECKING:
    from collections.abc import Callable

PATH = "/callback"
PATIENCE_S = 300.0
"""How long a human may take to log in [s]."""
HEAD_BYTES = 64 * 1024


async def open_browser(url: str, show: Callable[[str], None]) -> None:
    """Send whoever sits at this machine to ``url``."""
    show(f"Log in with the browser, at:\n{url}")
    with contextlib.suppress(webbrowser.Error, OSError):
        await asyncio.to_thread(webbrowser.open, url)


class Redirects:
    """The listener; up while the context lasts."""

    def __init__(self, port: int, *, fixed: bool) -> None:
        """Listen on ``port``; where it is not free, on any other unless it is ``fixed``."""
        self.port, self._fixed = port, fixed
        self._open: set[asyncio.StreamWriter] = set()
        self._state: str | None = None
        self._query: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    @property
    def address(self) -> str:
        """Where the browser is to be sent."""
        return f"http://127.0.0.1:{self.port}{PATH}"

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port, limit=HEAD_BYTES)
        except OSError as error:
            if self._fixed:
                problem = f"cannot listen on port {self.port} (oauth.redirect_port) for the browser: {error}"
                raise TransportError(problem, retryable=False) from error
            self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=HEAD_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._query.cancel()
        self._server.close()
        # Browsers open connections that they do not use.
        for writer in list(self._open):
            writer.transport.abort()
        await self._server.wait_closed()

    def expect(self, url: str) -> None:
        """Take the answer to ``url``, where a human is about to be sent, and no other."""
        self._state = parse_qs(urlsplit(url).query).get("state", [None])[0]

    async def answer(self) -> AuthorizationCodeResult:
        """What the browser brings back.

        Raises:
            TransportError: That nobody wants to be logged in, or nothing in time.
        """
        return await result_of(self._query)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            status, text = self._take(head.split(b" ", 2)[1].decode("latin-1"))
            body = f"<!doctype html><title>PML</title><p>{html.escape(text)}</p>".encode()
            fields = b"Content-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\nConnection: close" % len(body)
            writer.write(b"HTTP/1.1 %b\r\n%b\r\n\r\n%b" % (status, fields, body))
            await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, IndexError, OSError):
            return
        finally:
            self._open.discard(writer)
            writer.close()

    def _take(self, target: str) -> tuple[bytes, str]:
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        # Whatever else runs in the browser may come here too; it does not know the state.
        if parts.path != PATH or self._state is None or query.get("state") != self._state:
            return b"404 Not Found", "There is nothing here."
        if not self._query.done():
            self._query.set_result(query)
        return b"200 OK", "You can close this window and go back to the terminal."


async def result_of(query: asyncio.Future[dict[str, str]]) -> AuthorizationCodeResult:
    """What the browser brings back, from the query of the address that it comes back to.

    Raises:
        TransportError: That nobody wants to be logged in, or nothing in time.
    """
    try:
        async with asyncio.timeout(PATIENCE_S):
            found = await query
    except TimeoutError:
        raise TransportError(f"nobody logged in within {PATIENCE_S:g} s", retryable=True) from None
    if "code" not in found:
        what = found.get("error_description") or found.get("error") or "no code"
        raise TransportError(f"the authorization server refused the login: {what}", retryable=False)
    return AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))
