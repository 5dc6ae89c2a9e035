"""What a connection with a handshake agreed on, and what it takes to agree on it again."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from pml_hookspecs import RawObject, TransportError

from .headers import SESSION, VERSION, encode_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SESSION_HEADER = SESSION
LISTS = ("tools", "resources", "prompts")
SUBSCRIBE, UNSUBSCRIBE, SET_LEVEL = "resources/subscribe", "resources/unsubscribe", "logging/setLevel"

_VISIBLE = re.compile(r"[\x21-\x7e]+")


def session_of(headers: Mapping[str, str], peer: str) -> str | None:
    """The session that an answer to ``initialize`` begins; None where the server keeps none.

    Raises:
        TransportError: It is no id of a session (MCP 2025-11-25, "Session Management": visible ASCII).
    """
    session = headers.get(SESSION_HEADER)
    if session is not None and not _VISIBLE.fullmatch(session):
        raise TransportError(f"{peer} gave a session id that is not visible ASCII: {session[:40]!r}", retryable=False)
    return session


class Handshake:
    """State of the session, as the messages that pass by tell it."""

    def __init__(self) -> None:
        """Before the first handshake."""
        self.number = 0
        """Counts handshakes, so that one loss of a session is not mended twice."""
        self.params: bytes | None = None
        """Params of the ``initialize`` that passed by; None before it."""
        self.session: str | None = None
        """None when the server keeps none."""
        self._version: str | None = None
        self._lists: tuple[str, ...] = ()
        self._wishes: dict[tuple[str, str], bytes] = {}
        """Params of requests that left something behind in the session."""

    def begin(self, params: bytes) -> None:
        """An ``initialize`` is being sent."""
        self.number += 1
        self.params, self.session, self._version = params, None, None

    def agree(self, result: RawObject) -> None:
        """It was answered."""
        version, capabilities = result.get("protocolVersion"), result.get("capabilities")
        self._version = version if isinstance(version, str) else None
        self._lists = tuple(name for name in LISTS if isinstance(capabilities, dict) and name in capabilities)

    @property
    def headers(self) -> dict[str, str]:
        """What every later message must carry."""
        headers = {}
        if self.session is not None:
            headers[SESSION_HEADER] = self.session
        if self._version is not None:
            headers[VERSION] = encode_value(self._version)
        return headers

    @property
    def changes(self) -> Iterator[str]:
        """Notifications that make the other end read every list again."""
        return (f"notifications/{name}/list_changed" for name in self._lists)

    def remember(self, method: str, params: bytes) -> None:
        """Keep what a request that succeeded left behind in the session."""
        if method == SET_LEVEL:
            self._wishes[method, ""] = params
        elif method in (SUBSCRIBE, UNSUBSCRIBE):
            key = SUBSCRIBE, str(json.loads(params).get("uri"))
            if method == SUBSCRIBE:
                self._wishes[key] = params
            else:
                self._wishes.pop(key, None)

    @property
    def wishes(self) -> list[tuple[str, bytes]]:
        """Requests to repeat in a new session: method and params."""
        return [(method, params) for (method, _), params in self._wishes.items()]
