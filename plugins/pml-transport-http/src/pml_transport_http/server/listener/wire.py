"""One connection of a client: the server's protocol, with the limits that it lacks.

The head of a response is written together with its body: most answers are short, and each write is a system call.
"""

from __future__ import annotations

import asyncio
import enum
from http import HTTPStatus
from math import inf
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pml_transport_http.server.http import ADMISSION, ADMIT

from .connections import Claim

if TYPE_CHECKING:
    from pml_transport_http.settings import Settings

    from .connections import Connections

HEAD, END = b"HTTP/1.1 ", b"\r\n\r\n"
BODY_RATE = 16 * 1024
"""Each so many bytes of a body that was let in give it another second, up to its time limit from then on [bytes]."""
LINGER_S = 2.0
"""How long a client that was refused may take to read why [s]."""


class ResponseWriter:
    """A transport that holds a response's head back until its body follows, or for a turn of the loop."""

    def __init__(self, transport: asyncio.Transport) -> None:
        """Write to ``transport``, which does all the rest."""
        self._transport = transport
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write, or hold back."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(HEAD) and data.endswith(END):
            self._head = data
            asyncio.get_running_loop().call_soon(self._flush)
            return
        self._transport.write(data)

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def close(self) -> None:
        """Close, once everything is written."""
        self._flush()
        self._transport.close()


class Phase(enum.Enum):
    """What a connection is at."""

    HEAD = enum.auto()
    BODY = enum.auto()
    ANSWER = enum.auto()
    IDLE = enum.auto()
    REFUSED = enum.auto()
    """What comes is passed over."""


class BrokenRuleError(Exception):
    """Stops the parser."""


class Protocol(HttpToolsProtocol):
    """The server's protocol. Implements :class:`.connections.Connection`.

    What the library has no limit for: the size and number of headers, the time for them and for a body, and requests
    that do not wait for the answer to the one before, which it would queue without end.
    """

    def __init__(self, settings: Settings, everybody: Connections, **kwargs: Any) -> None:
        """``everybody`` says whether there is a place for it; the rest is the server's."""
        super().__init__(**kwargs)
        self._settings, self._everybody = settings, everybody
        self._phase = Phase.HEAD
        self._due = inf
        """When what it owes must be there, on the loop's clock."""
        self._begun = self._known = self._admitted = False
        """Something of a head is there; a request was let in, ever; and this one."""
        self._unparsed = 0
        """What came since the parser last made something of it [bytes]."""
        self._status = HTTPStatus.BAD_REQUEST
        """Why the parser was stopped."""

    # What the rules go by.

    def claim(self) -> Claim:
        """Its claim to its place."""
        if not self._known or self._phase is Phase.REFUSED:
            return Claim.STRANGER
        if not self._admitted or self._phase in (Phase.HEAD, Phase.IDLE):
            return Claim.IDLE
        return Claim.SENDING if self._phase is Phase.BODY else Claim.SERVED

    def overdue(self, now: float) -> bool:
        """Whether what it owes should have come."""
        return now > self._due

    def expects_request(self) -> bool:
        """Whether its first request, or the rest of one, is to come."""
        return self._phase in (Phase.HEAD, Phase.BODY)

    def end_with_answer(self) -> None:
        """Have it end with the answer that is being given, where there is one."""
        if self._is_answering():
            self.cycle.keep_alive = False

    def expire(self) -> None:
        """End it, with a reason where something of a request is there."""
        if self._phase is Phase.REFUSED:
            self.transport.abort()
        elif self._phase is Phase.IDLE or (self._phase is Phase.HEAD and not self._begun):
            self.transport.close()
            self._due = inf
        else:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)

    def evict(self) -> None:
        """End it at once."""
        self._disconnect()
        self.transport.abort()

    def admit(self) -> None:
        """The request is let in."""
        self._known = self._admitted = True
        if self._phase is Phase.ANSWER:
            self._due = inf

    # What the event loop says.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Begin, if there is a place."""
        super().connection_made(ResponseWriter(transport))  # type: ignore[arg-type]  # it does as one
        self._due = self.loop.time() + self._settings.header_timeout_s
        if not self._everybody.enter(self, self.client[0] if self.client else ""):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._everybody.leave(self)
        super().connection_lost(exc)
        # They lead back here, and garbage in a circle is looked for seldom.
        self.cycle = self.scope = None  # type: ignore[assignment]  # nothing comes any more

    def data_received(self, data: bytes) -> None:
        """Take what came, within the limits."""
        if self._phase is Phase.REFUSED:
            return
        if self._phase is Phase.IDLE:
            self._phase, self._due = Phase.HEAD, self.loop.time() + self._settings.header_timeout_s
        self._unparsed += len(data)
        super().data_received(data)
        # The parser keeps what is not complete, and nothing else bounds it.
        if self._unparsed > self._settings.max_header_bytes:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    # What the parser says.

    def on_message_begin(self) -> None:
        """A request begins: only once the one before is answered."""
        if self._is_answering():
            self._stop(HTTPStatus.TOO_EARLY)
        super().on_message_begin()
        self.scope["extensions"] = {ADMISSION: {ADMIT: self.admit}}
        self._begun, self._admitted = True, False

    def on_headers_complete(self) -> None:
        """The request can be served; its body is to come."""
        settings, headers = self._settings, self.headers
        if len(headers) > settings.max_headers or (
            # No more can be in the head than came, of which a body may be a part.
            self._unparsed > settings.max_header_bytes
            and len(self.url) + sum(len(name) + len(value) for name, value in headers) > settings.max_header_bytes
        ):
            self._stop(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        self.headers = []  # trailers are nobody's
        self._begun, self._unparsed = False, 0
        self._phase, self._due = Phase.BODY, self.loop.time() + settings.body_timeout_s
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._unparsed = 0
        if self._admitted and self._is_answering():
            self._due = min(self._due + len(body) / BODY_RATE, self.loop.time() + self._settings.body_timeout_s)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is there."""
        super().on_message_complete()
        self._unparsed = 0
        if not self._is_answering():
            self._rest()
            return
        self._phase = Phase.ANSWER
        if self._admitted:
            self._due = inf

    def on_response_complete(self) -> None:
        """The answer is written. Not the server's own: a timer for each answer is dear, and nothing is queued here."""
        self.server_state.total_requests += 1
        if not self.transport.is_closing():
            self.flow.resume_reading()
            if self._phase is Phase.ANSWER:
                self._rest()

    def _rest(self) -> None:
        self._phase, self._due = Phase.IDLE, self.loop.time() + self.timeout_keep_alive

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    # How it ends early.

    def _stop(self, status: HTTPStatus) -> None:
        self._status = status
        raise BrokenRuleError

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser stopped at."""
        if self._status is HTTPStatus.TOO_EARLY:
            # The request before gets its answer, and then the connection ends.
            self._phase, self._due = Phase.REFUSED, inf
            self.cycle.keep_alive = False
        else:
            self._refuse(self._status)

    def _refuse(self, status: HTTPStatus) -> None:
        """Answer, unless an answer is under way, and end; what still comes is passed over meanwhile."""
        if self._phase is Phase.REFUSED or self.transport.is_closing():
            return
        begun = self._is_answering() and self.cycle.response_started
        self._phase, self._due = Phase.REFUSED, self.loop.time() + LINGER_S
        self._disconnect()
        if begun:
            self.transport.close()
            return
        text = status.phrase.encode()
        head = b"HTTP/1.1 %d %b\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(head % (status, text, len(text)) + text)
        # Closing at once would take the answer from a client that is still sending.
        self.transport.write_eof()

    def _disconnect(self) -> None:
        """Tell the application that the client is gone."""
        if self._is_answering():
            self.cycle.disconnected = True
            self.cycle.message_event.set()
