"""What was sent on the streams of the 2025 revisions, for clients that come back for the rest."""

from __future__ import annotations

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.types import JSONRPCMessage


class Events(EventStore):
    """Every event since the start, in memory. Ids are its index in decimal."""

    def __init__(self) -> None:
        self._events: list[tuple[str, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Keep an event."""
        self._events.append((stream_id, message))
        return str(len(self._events) - 1)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send again what followed an event on its stream, and say which stream that is; None if it is unknown."""
        if not last_event_id.isdecimal() or int(last_event_id) >= len(self._events):
            return None
        last = int(last_event_id)
        stream = self._events[last][0]
        for id, (other, message) in enumerate(self._events[last + 1 :], last + 1):
            if other == stream and message is not None:
                await send_callback(EventMessage(message, str(id)))
        return stream
