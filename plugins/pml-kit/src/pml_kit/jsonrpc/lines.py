"""A peer on whatever carries bytes both ways: each message is a line, and nothing is kept without limit.

A transport hands over a ``writer``, feeds the bytes that arrive, and ends the connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from pml_hookspecs import TransportError
from pml_kit.json_line import json_line

from . import envelope
from .framing import Lines, OversizedLine
from .junk import shown
from .outbox import Outbox
from .peer import Peer
from .pending_requests import SerialRequests

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ALWAYS_EXCEEDED = -1


class Limits(Protocol):
    """What one connection may take."""

    @property
    def write_buffer_bytes(self) -> int:
        """Unwritten, above which requests of ours are refused [bytes]."""
        ...

    @property
    def notify_buffer_bytes(self) -> int:
        """Unwritten, above which notifications are held back and merged [bytes]."""
        ...

    @property
    def max_requests(self) -> int:
        """Requests of the peer's that are answered at a time, above which more are refused."""
        ...

    @property
    def max_message_bytes(self) -> int:
        """Longest line; a longer one is skipped [bytes]."""
        ...


class Writer(Protocol):
    """Where bytes go. Whoever writes them calls :meth:`LinePeer.room` when all of them have been."""

    @property
    def size(self) -> int:
        """Not yet written [bytes]."""
        ...

    def write(self, chunks: tuple[bytes, ...], *, now: bool = False) -> None:
        """Write in order; ``now`` when nothing is likely to follow in this turn of the loop. Never blocks."""
        ...


class LinePeer(Peer):
    """The multiplexer. Implements :class:`pml_hookspecs.Link`."""

    writer: Writer

    def __init__(self, peer: str, limits: Limits, log: Any, *, concurrent: bool = True, sheds: bool = False) -> None:
        """Make one to ``peer``, as messages call it.

        Args:
            peer: ``server 'git'``, say.
            limits: What it may take.
            log: Where junk and faults go.
            concurrent: False to have at most one request of ours on its way at a time.
            sheds: Drop answers to a peer that does not read, instead of keeping them without limit.
        """
        super().__init__(peer, log, max_requests=limits.max_requests)
        self._limits, self._sheds = limits, sheds
        self._lines = Lines(limits.max_message_bytes)
        self._turns = None if concurrent else SerialRequests(self._write, self._stuck)
        self._relaxed_bytes = limits.notify_buffer_bytes
        """Unwritten while notifications pass. :data:`ALWAYS_EXCEEDED` while some are held back: none overtakes them."""
        self.counters |= dict.fromkeys(("oversized", "merged"), 0)
        """As of every peer, lines too long, and notifications that later ones stood in for."""
        self._outbox = Outbox(limits.write_buffer_bytes, self.counters)

    # What we send.

    def send_request(self, key: int, method: str, params: Mapping[str, Any]) -> None:
        """Write a request, or let it wait for its turn."""
        unwritten = self.writer.size + self._outbox.size
        if unwritten > self._limits.write_buffer_bytes:
            raise TransportError(
                f"{self._peer} is not reading its input: {unwritten} bytes wait to be written, so {method} was not "
                "sent; try again later",
                retryable=True,
            )
        line = envelope.request(key, method, json_line(params))
        if self._turns is not None:
            self._turns.submit(key, line)
        else:
            self._write(line, now=len(self._pending) == 1)

    def send_answer(self, line: tuple[bytes, ...]) -> None:
        """Write an answer, where the peer may still take it."""
        if self._sheds and self.writer.size + self._outbox.size > self._limits.write_buffer_bytes:
            self.counters["dropped"] += 1
        else:
            self._write(line, now=not self._running)

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification, as :class:`pml_hookspecs.Link` says."""
        if self._error is not None:
            self.counters["dropped"] += 1
        elif self.writer.size > self._relaxed_bytes:
            self.hold(method, params)
        elif (line := self._notification_line(method, params)) is not None:
            self.writer.write(line)

    def _notification_line(self, method: str, params: Mapping[str, Any]) -> tuple[bytes, ...] | None:
        try:
            return envelope.notification(method, params)
        except (TypeError, ValueError) as error:
            self.counters["dropped"] += 1
            self.log.warning("jsonrpc.unsendable_notification", peer=self._peer, method=method, problem=str(error))
            return None

    def hold(self, method: str, params: Mapping[str, Any]) -> None:
        """Keep a notification until :meth:`room` is called."""
        if self._outbox.refuses(method) or (line := self._notification_line(method, params)) is None:
            return
        self._outbox.put(method, params, line, self.writer.size)
        if self._outbox.size:
            self._relaxed_bytes = ALWAYS_EXCEEDED

    def room(self) -> None:
        """Send what was held back."""
        if self._outbox.size:
            self._relaxed_bytes = self._limits.notify_buffer_bytes
            self.writer.write(self._outbox.empty())

    def _write(self, chunks: tuple[bytes, ...], *, now: bool = False) -> None:
        # Nothing overtakes what was sent before it: no answer the progress that led to it, no request the notification
        # that allows it.
        if self._outbox.size:
            self.room()
        self.writer.write(chunks, now=now)

    def _stuck(self, problem: str) -> None:
        self.end(TransportError(f"{self._peer} {problem}", retryable=True))

    # What arrives.

    def data_received(self, data: bytes) -> None:
        """Take a chunk from the peer."""
        self._take(self._lines.feed(data))

    def eof_received(self) -> None:
        """Take the line that the stream ended in."""
        self._take(self._lines.close())

    def _take(self, lines: Sequence[bytes | OversizedLine]) -> None:
        for line in lines:
            if isinstance(line, OversizedLine):
                self._oversized(line)
            elif line:
                self.received(line)

    def _oversized(self, line: OversizedLine) -> None:
        self.counters["oversized"] += 1
        limit, head = self._limits.max_message_bytes, shown(line.head)
        self.log.warning("jsonrpc.oversized", peer=self._peer, bytes=line.size, limit=limit, head=head)
        what = f"an answer of {line.size} bytes; the limit is max_message_bytes = {limit}"
        self.unreadable(envelope.recover_id(line), what)

    # How it ends.

    def end(self, error: TransportError | None) -> None:
        """The connection is over; None when this end wanted it so. Only the first call counts."""
        if error is None and not self._ended:
            self.room()
        super().end(error)
