"""Ways to log in that are open: each for one principal at one server, good once and for some minutes.

With a listener, an invitation is an address of the gateway's own, at which the principal's key is asked for before
anything begins: whoever was sent the address by somebody else would give that one the login (MCP 2025-11-25,
elicitation, phishing). Without a listener the browser is on the gateway's own machine, and comes back to it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import parse_qs, urlsplit

from pml_hookspecs import TransportError

from . import PATH

if TYPE_CHECKING:
    from mcp.shared.auth import AuthorizationCodeResult

    from pml_transport_http.options import Target

CALLBACK = "callback"
OPEN_S = 600.0
"""How long an invitation is open [s]."""
MOST = 10_000
"""Open invitations at a time; above it the oldest is closed."""
ATTEMPTS = 5
"""Wrong keys that an invitation takes."""


class PageRedirects:
    """Where the browser comes back to: a page of the gateway's listener, for the browser that set out from it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.state = ""
        self._query: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    def expect(self, url: str) -> None:
        """Take the answer to ``url``."""
        self.state = parse_qs(urlsplit(url).query).get("state", [""])[0]

    def bring(self, query: dict[str, str]) -> None:
        """The browser is back."""
        if not self._query.done():
            self._query.set_result(query)

    async def answer(self) -> AuthorizationCodeResult:
        """As :meth:`pml_transport_http.redirects.Redirects.answer`."""
        from pml_transport_http.redirects import result_of

        return await result_of(self._query)


class Invitation:
    """Implements :class:`pml_kit.mcp.principal_logins.LoginInvitation`."""

    def __init__(self, target: Target, base: str) -> None:
        """``base`` is the address of the gateway's pages; ``""`` where it has none."""
        self.id, self.target, self.base = secrets.token_urlsafe(32), target, base
        self.url = f"{base}/{PATH}/{self.id}" if base else ""
        self.attempts = 0
        self.nonce = ""
        """Known to the browser that set out, and to no other."""
        self.redirects: PageRedirects | None = None
        self.work: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._expiry = loop.call_later(OPEN_S, self.close, f"nobody logged in within {OPEN_S:g} s")

    @property
    def open(self) -> bool:
        """Whether the login can still be made."""
        return not self._ended.done()

    async def made(self) -> None:
        """Wait until the login is made and kept."""
        await asyncio.shield(self._ended)

    def end(self) -> None:
        """It is made."""
        self._expiry.cancel()
        if self.open:
            self._ended.set_result(None)

    def close(self, why: str) -> None:
        """It is not made any more."""
        self._expiry.cancel()
        if self.open:
            self._ended.set_exception(TransportError(why, retryable=False))
            self._ended.exception()  # perhaps nobody waits
        if self.work is not None:
            self.work.cancel()


LogIn: TypeAlias = "Callable[[Invitation, Callable[[str], Awaitable[None]]], Awaitable[None]]"
"""Makes the login of an invitation, and sends the browser where it is told."""


class Invitations:
    """All that one gateway has open."""

    def __init__(self, log_in: LogIn) -> None:
        self._log_in = log_in
        self._known: dict[tuple[str, str], Invitation] = {}

    async def to(self, target: Target, base: str) -> Invitation:
        """The invitation of ``target.principal``; the one that is open, where there is one.

        Raises:
            TransportError: The login cannot even begin.
        """
        key = target.name, target.principal
        known = self._known.get(key)
        if known is not None and known.open and known.target == target and known.base == base:
            return known
        if known is not None:
            known.close("there is a newer invitation")
        self._known = {one: invitation for one, invitation in self._known.items() if invitation.open}
        if len(self._known) >= MOST:
            self._known.pop(next(iter(self._known))).close("too many logins are open at a time")
        made = self._known[key] = Invitation(target, base)
        if not base:
            made.url = await self.begin(made)
        return made

    def find(self, id: str) -> Invitation | None:
        """An open one."""
        return next((one for one in self._known.values() if one.open and one.id == id), None)

    def coming_back(self, state: str) -> Invitation | None:
        """The open one whose browser comes back with ``state``."""
        for one in self._known.values():
            if state and one.open and one.redirects is not None and one.redirects.state == state:
                return one
        return None

    async def begin(self, invitation: Invitation) -> str:
        """Begin the login; the address of the authorization server that the browser is to go to.

        Raises:
            TransportError: It failed before it came to that.
        """
        if invitation.work is not None:
            invitation.work.cancel()  # its browser has begun anew
        gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def send(url: str) -> None:
            gone.set_result(url)

        async def work() -> None:
            try:
                await self._log_in(invitation, send)
            except TransportError as error:
                invitation.close(str(error))
            except Exception as error:
                invitation.close(f"the login failed: {type(error).__name__}: {error}")
            else:
                invitation.end()

        invitation.work = asyncio.get_running_loop().create_task(work(), name="log in")
        await asyncio.wait((gone, invitation.work), return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            return gone.result()
        await invitation.made()
        raise TransportError("it needs no login", retryable=False)

    def close(self) -> None:
        """End all."""
        for one in self._known.values():
            one.close("the gateway is stopping")
