"""Gateways on one store: a request that goes on with what another one keeps is led there, whichever one it comes to.

What a client is given to go on with (the id of a session, the state of a question) is a handle, which says who keeps
it. Each listener writes into the store where the others reach it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Raw

from pml_hookspecs import RawObject
from pml_kit.identifiers import HANDLE, gateway_name, holder_of
from pml_kit.mcp.protocol import INTERNAL_ERROR, INVALID_PARAMS
from pml_kit.processes import is_surely_gone, machine, started
from pml_transport_http.server.headers import SESSION
from pml_transport_http.server.http import HttpError, Request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    import httpx2

    from pml_hookspecs import Document, Documents, Services
    from pml_kit.jsonrpc.envelope import Message
    from pml_transport_http.http1 import Http1

GATEWAYS = "http.gateways"
"""Collection of documents: where each listener is, by the name of its gateway."""
KEPT_S = 3600.0
"""How long a listener is remembered that does not say any more that it is there [s]."""
AGAIN_S = 0.5
"""Until the store is asked again that did not take it [s]."""
CONNECT_S = 5.0
LOOK_S, STILL_S = 5.0, 15.0
"""How often a gateway that was led to is asked whether it is there, and how long that may take [s]."""
LED = b"pml-led-to"
"""Header of a request that was led: the gateway it is for, which leads it no further."""
NOT_HERE = 421
LOOPBACK = ("localhost", "::1")
DROPPED = frozenset({b"host", b"origin", b"connection", b"keep-alive", b"transfer-encoding", b"content-length", b"te"})
"""Headers that belong to a connection, or were judged where the client connected."""
LOST = (
    "requestState: the gateway that kept this request is gone, and the request with it; nothing was run now, and what "
    "had run before stays done. See list_recent_executions before the request is sent again without requestState."
)
UNKNOWN_HOST = "192.0.2.1"
"""An address that nobody has (RFC 5737): on the way there, a machine goes by the address that others know it by."""


def reachable_at(host: str, port: int) -> str:
    """Where others reach a listener that is bound to ``host`` and ``port``, as a URL."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 - it is compared, not bound
        host = "127.0.0.1"
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((UNKNOWN_HOST, 9))  # sends nothing
            host = probe.getsockname()[0]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def held_by(request: Request, message: Message | None) -> str:
    """The gateway that keeps what a request goes on with; ``""`` for none but where it came to."""
    headers = request.headers
    if LED in headers:
        return ""
    name = holder_of(headers.get(SESSION, b"").decode("latin-1"))
    params = bytes(message.params) if message is not None and isinstance(message.params, Raw) else b""
    if not name and b'"requestState"' in params and HANDLE.encode() in params:
        name = holder_of(RawObject(params).get("requestState"))
    return "" if name == gateway_name() else name


class Peers:
    """The other gateways."""

    def __init__(self, services: Services | None, url: str, log: Any) -> None:
        """``url`` is where others reach this one; without ``services`` there are no others."""
        self._services, self.url, self._log = services, url, log
        self._http: Http1 | None = None
        self._saying: asyncio.Task[None] | None = None
        self._answered_s: dict[str, float] = {}
        """When the gateway at an address was last seen to answer, by the clock of the event loop."""

    @property
    def documents(self) -> Documents | None:
        """What the gateways share; None where there is no store."""
        try:
            return None if self._services is None else self._services.store.documents
        except RuntimeError:  # there is no store
            return None

    async def begin(self) -> None:
        """Say that this one is there, until :meth:`end`."""
        said = await self._say()
        self._saying = asyncio.get_running_loop().create_task(self._say_again(said=said), name="http:peers")

    async def end(self) -> None:
        """Say that it is not there any more."""
        if self._saying is not None:
            self._saying.cancel()
        if (documents := self.documents) is not None:
            with contextlib.suppress(Exception):  # whoever comes for it finds nobody
                await documents.delete(GATEWAYS, gateway_name())
        if self._http is not None:
            await self._http.aclose()

    async def _say_again(self, *, said: bool) -> None:
        while True:
            await asyncio.sleep(KEPT_S / 3 if said else AGAIN_S)
            said = await self._say()

    async def _say(self) -> bool:
        import os

        if (documents := self.documents) is None:
            return True
        pid = os.getpid()
        value = {"url": self.url, "machine": machine(), "pid": pid, "started": started(pid)}
        until = datetime.now(UTC) + timedelta(seconds=KEPT_S)
        try:
            await documents.put(GATEWAYS, gateway_name(), value, expires_at=until)
        except Exception as error:
            self._log.warning("http.not_found_by_others", problem=str(error))
            return False
        return True

    def check_led(self, headers: Mapping[bytes, bytes]) -> None:
        """See that a request that was led is for this gateway: another one may have its address by now.

        Raises:
            HttpError: It is for another one, with status 421.
        """
        if (name := headers.get(LED)) is not None and name != gateway_name().encode():
            raise HttpError(NOT_HERE, INTERNAL_ERROR, "Another gateway listens here by now")

    async def lead(self, request: Request, body: bytes, name: str) -> bool:
        """Have the gateway ``name`` answer a request; False when that one is gone.

        Raises:
            HttpError: It cannot be known, or that one does not answer, with status 503.
        """
        url = await self._url_of(name)
        return bool(url) and await self._led(request, body, name, url)

    async def lives(self, name: str) -> bool:
        """Whether the gateway ``name`` is there.

        Raises:
            HttpError: It cannot be known, with status 503.
        """
        if not (url := await self._url_of(name)):
            return False
        place = urlsplit(url)
        try:
            async with asyncio.timeout(CONNECT_S):
                _, writer = await asyncio.open_connection(place.hostname, place.port or 80)
        except TimeoutError:
            raise _later("The gateway that keeps this does not answer") from None
        except OSError:
            return False
        writer.close()
        return True

    async def _url_of(self, name: str) -> str:
        """Where a gateway is; ``""`` when it is gone."""
        if (documents := self.documents) is None:
            return ""
        try:
            found = await documents.get(GATEWAYS, name)
        except Exception as error:
            self._log.warning("http.peer_unknown", problem=str(error))
            raise _later("It cannot be looked up at the moment which gateway keeps this") from None
        return "" if found is None or _is_gone(found) else str(found.value["url"])

    async def _led(self, request: Request, body: bytes, name: str, url: str) -> bool:
        import httpx2

        from pml_transport_http.http1 import Http1

        if self._http is None:
            self._http = Http1(None, CONNECT_S)
        if not await self._is_awake(url, self._http):
            raise _later("The gateway that keeps this does not answer, and was not asked")
        answering = asyncio.ensure_future(self._http.handle_async_request(_same(request, body, name, url)))
        still = asyncio.ensure_future(self._until_still(url, self._http))
        try:
            await asyncio.wait((answering, still), return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                raise httpx2.ReadTimeout("it does not answer any more")
            response = answering.result()
            if response.status_code == NOT_HERE:
                await response.aclose()
                return False
            await _hand_on(request, response, still)
        except httpx2.ConnectError:
            return False
        except httpx2.TransportError as error:
            self._log.warning("http.peer_failed", url=url, problem=str(error))
            raise _later("The gateway that keeps this does not answer, and may yet do what it was asked") from None
        finally:
            answering.cancel()
            still.cancel()
        return True

    async def _until_still(self, url: str, http: Http1) -> None:
        while await self._is_awake(url, http):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(LOOK_S)

    async def _is_awake(self, url: str, http: Http1) -> bool:
        """Whether the gateway at ``url`` answers: for one that stands still its system goes on to take connections.

        True as well when nobody listens there, which whoever asks is told at once.
        """
        import httpx2

        clock = asyncio.get_running_loop().time
        if clock() - self._answered_s.get(url, -LOOK_S) >= LOOK_S:
            try:
                async with asyncio.timeout(STILL_S):
                    await (await http.handle_async_request(httpx2.Request("GET", f"{url}/healthz"))).aclose()
            except httpx2.ConnectError:
                return True
            except (TimeoutError, httpx2.TransportError):
                return False
            self._answered_s[url] = clock()
        return True


def lost(request_id: Any) -> HttpError:
    """Why a request does not go on that a gateway kept which is gone."""
    return HttpError(400, INVALID_PARAMS, LOST, id=request_id)


def _later(message: str) -> HttpError:
    return HttpError(503, INTERNAL_ERROR, f"{message}; try again", headers=[(b"retry-after", b"1")])


def _is_gone(found: Document) -> bool:
    value = found.value
    if is_surely_gone(int(value["pid"]), str(value["started"]), str(value["machine"])):
        return True
    # What only its own machine reaches is as good as gone for others.
    host = urlsplit(str(value["url"])).hostname or ""
    return (host in LOOPBACK or host.startswith("127.")) and value["machine"] != machine()


def _same(request: Request, body: bytes, name: str, url: str) -> httpx2.Request:
    """The request, for another gateway."""
    import httpx2

    scope = request.scope
    target = scope.get("raw_path") or scope["path"].encode()
    if scope["query_string"]:
        target += b"?" + scope["query_string"]
    headers = [(key, value) for key, value in scope["headers"] if key not in DROPPED]
    headers.append((LED, name.encode()))
    return httpx2.Request(scope["method"], url + target.decode("ascii"), headers=headers, content=body)


async def _hand_on(request: Request, response: httpx2.Response, still: asyncio.Future[None]) -> None:
    """Answer with what another gateway answers, as it comes, as long as the client is there, and until ``still``."""
    relaying = asyncio.ensure_future(_relay(request, response))
    watching = asyncio.ensure_future(_until_left(request))
    try:
        await asyncio.wait((relaying, watching, still), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (relaying, watching):
            task.cancel()
        await asyncio.gather(relaying, watching, return_exceptions=True)
        await response.aclose()


async def _relay(request: Request, response: httpx2.Response) -> None:
    headers = [(key.lower(), value) for key, value in response.headers.raw]
    kept = [(key, value) for key, value in headers if key == b"content-length" or key not in DROPPED]
    await request.send({"type": "http.response.start", "status": response.status_code, "headers": kept})
    async for chunk in _chunks(response):
        await request.send({"type": "http.response.body", "body": chunk, "more_body": True})
    await request.send({"type": "http.response.body", "body": b""})


async def _chunks(response: httpx2.Response) -> AsyncIterator[bytes]:
    async for chunk in response.stream:  # type: ignore[union-attr]  # it is what Http1 gives
        yield chunk


async def _until_left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
