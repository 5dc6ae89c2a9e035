"""``subscriptions/listen`` of clients without a handshake: long answers, made of notifications (MCP 2026-07-28)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from pml_hookspecs import EMPTY, Origin, RawObject
from pml_kit.identifiers import gateway_name
from pml_kit.json_members import with_member, with_meta
from pml_kit.mcp.protocol import LIST_CHANGED, META_SUBSCRIPTION_ID, UPDATED

if TYPE_CHECKING:
    from pml_hookspecs import Documents

LISTS = "mcp.lists"
"""Collection of documents: the list of tools of each server that changed last, and at which gateway."""
KEPT = timedelta(hours=1)
LOOK_S = 1.0
"""How often it is looked for them while somebody listens [s]."""
KINDS = {method: f"{kind}ListChanged" for kind, method in LIST_CHANGED.items()}


class ResourceOwner(Protocol):
    """A server, as those see it who hear of its resources."""

    @property
    def name(self) -> str:
        """By which it is configured."""
        ...

    async def unsubscribe(self, uri: str, params: RawObject) -> RawObject:
        """Tell no more of a resource; ``uri`` is its own, ``params`` are those of the request.

        Raises:
            TimeoutError, TransportError, RpcError: It cannot be asked, or refuses.
        """
        ...


class Listener:
    """One stream: what the client wants to hear of."""

    def __init__(self, origin: Origin, wanted: Mapping[str, Any]) -> None:
        """Take what is understood of ``wanted``, the request's ``notifications``."""
        self._origin = origin
        self._kinds: dict[str, Any] = {name: True for name in KINDS.values() if wanted.get(name) is True}
        uris = wanted.get("resourceSubscriptions")
        self.uris = list(dict.fromkeys(uri for uri in uris if isinstance(uri, str))) if isinstance(uris, list) else []
        """Resources that it asks for."""
        self.resources: dict[str, tuple[ResourceOwner, str]] = {}
        """Resources that it hears of: the URI that the client knows, and the server that has it under which."""
        self._early: list[tuple[str, RawObject]] | None = []
        self.ended = asyncio.Event()

    @property
    def meta(self) -> dict[str, Any]:
        """Marks everything that belongs to this stream."""
        return {META_SUBSCRIPTION_ID: self._origin.id}

    def acknowledge(self) -> None:
        """Say what will be told, before anything is told."""
        honored = dict(self._kinds)
        if self.resources:
            honored["resourceSubscriptions"] = [uri for uri in self.uris if uri in self.resources]
        self._origin.link.notify(
            "notifications/subscriptions/acknowledged", {"notifications": honored, "_meta": self.meta}
        )
        early, self._early = self._early or [], None
        for method, params in early:
            self._origin.link.notify(method, params)

    def tell(self, method: str, params: RawObject, server: str = "") -> None:
        """Hand on a notification, if it is wanted; ``server`` as for :meth:`pml_mcp.wire.client.Client.tell`."""
        if method == UPDATED:
            for shown, (whose, own) in self.resources.items():
                if own == params.get("uri") and server in ("", whose.name):
                    self._say(method, with_member(params, "uri", shown))
        elif KINDS.get(method) in self._kinds:
            self._say(method, params)

    def _say(self, method: str, params: RawObject) -> None:
        params = with_meta(params, self.meta)
        if self._early is None:
            self._origin.link.notify(method, params)
        else:
            self._early.append((method, params))


class Listeners:
    """The open streams of one client."""

    def __init__(self) -> None:
        self._open: set[Listener] = set()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, listener: Listener) -> None:
        """A stream begins."""
        self._open.add(listener)

    def discard(self, listener: Listener) -> None:
        """A stream is over."""
        self._open.discard(listener)

    def tell(self, method: str, params: RawObject = EMPTY, server: str = "") -> None:
        """Hand on a notification to the streams that want it."""
        for listener in tuple(self._open):
            listener.tell(method, params, server)

    def end(self) -> None:
        """End all streams in good order: the gateway goes down."""
        for listener in tuple(self._open):
            listener.ended.set()


class ListeningClient(Protocol):
    """A client, as far as lists of other gateways are its business."""

    @property
    def listeners(self) -> Listeners:
        """Its open streams."""
        ...

    async def told_elsewhere(self, server: str) -> None:
        """Another gateway has another list of a server's tools now."""
        ...


class ListComparison:
    """Lists of tools that changed at another gateway on the store: a client that listens here may be answered there."""

    def __init__(
        self,
        documents: Documents,
        lists: Callable[[], Mapping[str, str]],
        clients: Collection[ListeningClient],
    ) -> None:
        """``lists`` gives a digest of each server's list as it is here; ``clients`` are those that are connected."""
        self._documents, self._lists, self._clients = documents, lists, clients
        self._known = dict(lists())
        self._told: dict[str, int] = {}

    def changed(self) -> None:
        """Write down what has changed here, for the others. The first list of a server changes nothing."""
        before, self._known = self._known, dict(self._lists())
        until = datetime.now(UTC) + KEPT
        for server, digest in self._known.items():
            if before.get(server, digest) != digest:
                value = {"gateway": gateway_name(), "list": digest}
                self._documents.put_soon(LISTS, server, value, expires_at=until)

    async def watch(self) -> None:
        """Tell clients of changes elsewhere. Never ends."""
        while True:
            await asyncio.sleep(LOOK_S)
            if any(len(client.listeners) for client in self._clients):
                with suppress(Exception):  # the store says itself what is wrong with it
                    await self._look()

    async def _look(self) -> None:
        for one in (await self._documents.find(LISTS, limit=1000)).items:
            known, self._told[one.key] = self._told.get(one.key), one.version
            elsewhere = one.value["gateway"] != gateway_name()
            if elsewhere and known != one.version and self._lists().get(one.key) != one.value["list"]:
                for client in [each for each in self._clients if len(each.listeners)]:
                    await client.told_elsewhere(one.key)
