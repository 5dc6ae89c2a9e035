"""Notifications for a peer that does not read as fast as they come: kept in order, merged, and never too many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pml_kit.mcp.protocol import META_SUBSCRIPTION_ID

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"
UPDATED = "notifications/resources/updated"
LOGGED = "notifications/message"
LIST_CHANGED = "/list_changed"
LOGGED_AT_MOST = 1000
"""Log messages held back; further ones are dropped until there is room [messages]."""


class Outbox:
    """What is held back, oldest first.

    What comes out is what went in without some of it, in the same order: of messages that make each other obsolete
    (progress of one request, changes of one list, updates of one resource) only the last is there.
    """

    def __init__(self, limit_bytes: int, counters: dict[str, int]) -> None:
        """Make an empty one.

        Args:
            limit_bytes: Of everything unwritten, above which what can be spared is dropped.
            counters: ``merged`` and ``dropped`` count what does not come out.
        """
        self._limit_bytes, self._counters = limit_bytes, counters
        self._held: dict[Hashable, tuple[bytes, ...]] = {}
        self._logged = 0
        self._last = 0
        self.size = 0
        """Held back [bytes]; 0 exactly when nothing is."""

    def refuses(self, method: str) -> bool:
        """Whether a message is dropped whatever it says, and need not be encoded."""
        if method != LOGGED or self._logged < LOGGED_AT_MOST:
            return False
        self._counters["dropped"] += 1
        return True

    def put(self, method: str, params: Mapping[str, Any], line: tuple[bytes, ...], unwritten_bytes: int) -> None:
        """Hold a message back.

        Args:
            method: Of the notification.
            params: The same.
            line: Its encoded form.
            unwritten_bytes: What waits in front of this outbox.
        """
        key = _key(method, params)
        before = None if key is None else self._held.pop(key, None)
        if before is not None:
            self._counters["merged"] += 1
            self.size -= sum(map(len, before))
        elif not self._takes(method, unwritten_bytes + self.size):
            self._counters["dropped"] += 1
            return
        if key is None:
            key = self._last = self._last + 1
            self._logged += method == LOGGED
        self._held[key] = line
        self.size += sum(map(len, line))

    def _takes(self, method: str, unwritten_bytes: int) -> bool:
        if method == CANCELLED:  # no more of them than requests, and those are refused
            return True
        # Peers make up names and ids, so that even lists that changed are endlessly many for a hostile one.
        limit_bytes = 2 * self._limit_bytes if method.endswith(LIST_CHANGED) else self._limit_bytes
        return unwritten_bytes <= limit_bytes

    def empty(self) -> tuple[bytes, ...]:
        """Everything, in order, to be written now."""
        chunks = tuple(chunk for line in self._held.values() for chunk in line)
        self._held.clear()
        self.size = self._logged = 0
        return chunks


def _key(method: str, params: Mapping[str, Any]) -> Hashable | None:
    """The same for messages of which the last one says it all; None for those that all count."""
    try:
        if method == PROGRESS:
            token = params.get("progressToken")
            return (method, type(token), token) if isinstance(token, (str, int)) else None
        if method == UPDATED:
            return method, str(params.get("uri")), _subscription(params)
        return (method, _subscription(params)) if method.endswith(LIST_CHANGED) else None
    except (ValueError, RecursionError):  # JSON that Python does not decode
        return None


def _subscription(params: Mapping[str, Any]) -> str | None:
    # From 2026-07-28 on, each subscription is told on its own.
    meta = params.get("_meta")
    subscription = meta.get(META_SUBSCRIPTION_ID) if isinstance(meta, dict) else None
    return None if subscription is None else repr(subscription)
