"""``subscriptions/listen`` of clients without a handshake: long answers, made of notifications (MCP 2026-07-28)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from pml_hookspecs import EMPTY, Origin, RawObject
from pml_hookspecs.protocol import META_SUBSCRIPTION_ID

from .members import with_meta

KINDS: Mapping[str, str] = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
UPDATED = "notifications/resources/updated"


class Listener:
    """One stream: what the client wants to hear of."""

    def __init__(self, origin: Origin, wanted: Mapping[str, Any]) -> None:
        """Take what is understood of ``wanted``, the request's ``notifications``."""
        self._origin = origin
        self.honored: dict[str, Any] = {name: True for name in KINDS.values() if wanted.get(name) is True}
        uris = wanted.get("resourceSubscriptions")
        self.uris = [uri for uri in uris if isinstance(uri, str)] if isinstance(uris, list) else []
        if self.uris:
            self.honored["resourceSubscriptions"] = self.uris
        self.ended = asyncio.Event()

    @property
    def meta(self) -> dict[str, Any]:
        """Marks everything that belongs to this stream."""
        return {META_SUBSCRIPTION_ID: self._origin.id}

    def acknowledge(self) -> None:
        """Say what will be told; the first message of the stream."""
        self._origin.link.notify(
            "notifications/subscriptions/acknowledged", {"notifications": self.honored, "_meta": self.meta}
        )

    def tell(self, method: str, params: RawObject) -> None:
        """Hand on a notification, if it is wanted."""
        wanted = params.get("uri") in self.uris if method == UPDATED else KINDS.get(method) in self.honored
        if wanted:
            self._origin.link.notify(method, with_meta(params, self.meta))


class Listeners:
    """The open streams of one client."""

    def __init__(self) -> None:
        self._open: set[Listener] = set()

    def __iter__(self) -> Iterator[Listener]:
        return iter(tuple(self._open))

    def __len__(self) -> int:
        return len(self._open)

    def add(self, listener: Listener) -> None:
        """A stream begins."""
        self._open.add(listener)

    def discard(self, listener: Listener) -> None:
        """A stream is over."""
        self._open.discard(listener)

    def tell(self, method: str, params: RawObject = EMPTY) -> None:
        """Hand on a notification to the streams that want it."""
        for listener in tuple(self._open):
            listener.tell(method, params)

    def subscribe(self, uri: str) -> bool:
        """Whether any stream wants to hear of changes of a resource."""
        return any(uri in listener.uris for listener in self._open)

    def end(self) -> None:
        """End all streams in good order: the gateway goes down."""
        for listener in tuple(self._open):
            listener.ended.set()
