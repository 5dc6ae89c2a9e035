"""Server-sent events, parsed as they arrive (WHATWG HTML, "Interpreting an event stream")."""

from __future__ import annotations

from typing import NamedTuple

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LINE_ENDS = (b"\n", b"\r")
LONGEST_ID = 4096
"""Longer ids of events are passed over: they come back in a header [bytes]."""


class Event(NamedTuple):
    """One event that carries data."""

    name: str
    """``message`` unless the server says otherwise."""
    data: bytes


class TooLongError(Exception):
    """An event is longer than allowed."""


class Events:
    """Turns chunks into events, in time linear in their size however they are cut."""

    def __init__(self, limit: int) -> None:
        """Take events of up to ``limit`` bytes."""
        self._limit = limit
        self._head: bytes | None = b""
        """The first bytes, until they can be told from a byte order mark; then None."""
        self._after_return = False
        self._pieces: list[bytes] = []
        """The parts of the line that has not ended yet."""
        self._pieces_size = 0
        self._name = ""
        self._data: list[bytes] = []
        self._size = 0
        self._id: str | None = None
        self.last_id: str | None = None
        """Id of the last complete event, to resume from; None when the server gives no ids."""
        self.retry_s: float | None = None
        """How long the server wants us to wait before connecting again [s]."""

    def feed(self, chunk: bytes) -> list[Event]:
        """Take a chunk; the events it completes.

        Raises:
            TooLongError: An event is longer than the limit.
        """
        if self._head is not None:
            chunk = self._head + chunk
            if len(chunk) < len(BYTE_ORDER_MARK) and BYTE_ORDER_MARK.startswith(chunk):
                self._head = chunk
                return []
            self._head = None
            chunk = chunk.removeprefix(BYTE_ORDER_MARK)
        if self._after_return and chunk:
            # The line has ended at the carriage return already.
            self._after_return = False
            chunk = chunk.removeprefix(b"\n")
        events: list[Event] = []
        for line in chunk.splitlines(keepends=True):
            if not line.endswith(LINE_ENDS):
                self._pieces.append(line)
                self._pieces_size += len(line)
                self._check(self._pieces_size)
                break
            self._line(self._joined(line.rstrip(b"\r\n")), events)
        self._after_return = chunk.endswith(b"\r")
        return events

    def close(self) -> list[Event]:
        """The event that the stream ended in, which may be cut off; :attr:`last_id` does not count it."""
        last = self.last_id
        events: list[Event] = []
        self._line(self._joined(b""), events)
        self._dispatch(events)
        self.last_id = last
        return events

    def _joined(self, end: bytes) -> bytes:
        if not self._pieces:
            return end
        line = b"".join((*self._pieces, end))
        self._pieces.clear()
        self._pieces_size = 0
        return line

    def _check(self, more: int) -> None:
        if self._size + more > self._limit:
            raise TooLongError(f"an event of more than {self._limit} bytes")

    def _line(self, line: bytes, events: list[Event]) -> None:
        if not line:
            self._dispatch(events)
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._check(len(value))
            self._size += len(value)
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode(errors="replace")
        elif field == b"id" and b"\0" not in value and len(value) <= LONGEST_ID:
            self._id = value.decode(errors="replace")
        elif field == b"retry" and value.isdigit():
            self.retry_s = int(value[:9]) / 1000

    def _dispatch(self, events: list[Event]) -> None:
        if self._id is not None:
            self.last_id = self._id or None
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        if data:
            events.append(Event(self._name or "message", data))
        self._name, self._data, self._size, self._id = "", [], 0, None
