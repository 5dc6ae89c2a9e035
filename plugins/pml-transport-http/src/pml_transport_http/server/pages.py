"""What plugins serve: their routes, of which nothing stays open for longer than the key that it was asked for with."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pml_kit.mcp.protocol import INVALID_REQUEST
from pml_kit.offers import OpenRoute

from .access.open_work import OpenWork
from .exchange import EXPELLED
from .http import Access, HttpError, Receive, Scope, Send

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping, Sequence
    from typing import TypeAlias

    from pml_hookspecs import Identity

    from .access.open_work import OpenWorks
    from .access.quotas import QuotaUse

    Identify: TypeAlias = Callable[[str | None], Awaitable[Identity]]

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
    """One application for each plugin that contributes routes, by the first part of their paths."""

    def __init__(
        self,
        routes: Mapping[str, Sequence[Any]],
        reserved: Collection[str],
        open_works: OpenWorks,
        log: Any,
        later: Mapping[str, Callable[[], Sequence[OpenRoute]]] = {},
    ) -> None:
        """Mount the routes of plugins, by plugin, but at paths that are ``reserved``.

        ``later`` gives the gateway's own at such paths, when the first of each is asked for.
        """
        self._open_works, self._later = open_works, dict(later)
        self._mounted, self._open = {}, {}
        for plugin, contributed in routes.items():
            if plugin in reserved:
                log.error("http.routes_not_mounted", plugin=plugin, problem="the gateway itself is at that path")
                continue
            if closed := [route for route in contributed if not isinstance(route, OpenRoute)]:
                self._mounted[plugin] = _mounted(plugin, closed)
            if opened := [route.route for route in contributed if isinstance(route, OpenRoute)]:
                self._open[plugin] = _mounted(plugin, opened)

    def __contains__(self, plugin: str) -> bool:
        return plugin in self._mounted

    def is_open(self, plugin: str, scope: Scope) -> bool:
        """Whether what is asked for is served without a key, by a route that finds out itself who it is."""
        if plugin in self._later:
            self._open[plugin] = _mounted(plugin, [one.route for one in self._later.pop(plugin)()])
        if plugin not in self._open:
            return False
        from starlette.routing import Match

        (mount,) = self._open[plugin].routes
        inside = {**scope, **mount.matches(scope)[1]}
        return any(route.matches(inside)[0] is not Match.NONE for route in mount.routes)

    async def serve_open(
        self, plugin: str, scope: Scope, receive: Receive, send: Send, identify: Identify, use: QuotaUse
    ) -> None:
        """Have a plugin answer that asks itself who it is, by ``identify``."""
        if scope["method"] != "POST":
            use.begin()
        scope.setdefault("state", {}).update(identify=identify)
        await self._open[plugin](scope, bounded(receive, use), send)

    async def serve(
        self, plugin: str, scope: Scope, receive: Receive, send: Send, access: Access, use: QuotaUse
    ) -> None:
        """Have a plugin answer, as long as the caller's key counts.

        Raises:
            HttpError: There are too many requests, or the key ended before the response began. One that had begun is
                broken off.
        """
        if scope["method"] != "POST":
            use.begin()
        scope.setdefault("state", {}).update(identity=access.identity(), principal=access.principal)
        page = PluginResponse(send)
        work = OpenWork(page.expel, lambda: True)
        self._open_works.begin(access, work)
        try:
            await self._mounted[plugin](scope, bounded(receive, use), page.send)
        except asyncio.CancelledError:
            if not page.expelled or page.task is None or page.task.uncancel():
                raise
            if not page.begun:
                refusal = HttpError(UNAUTHENTICATED, INVALID_REQUEST, EXPELLED.message)
                refusal.plain = True
                raise refusal from None
        finally:
            page.task = None
            self._open_works.end(access, work)


def _mounted(plugin: str, routes: Sequence[Any]) -> Any:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    return Starlette(routes=[Mount(f"/{plugin}", routes=list(routes))])
