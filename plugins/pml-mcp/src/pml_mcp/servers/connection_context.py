"""What connections to a server depend on, and who hears of what happens to them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pml_hookspecs import Link, RawObject
from pml_kit.system.redaction import Redactor
from pml_mcp.servers.connection.starts import Starts
from pml_mcp.wire.upstream import Upstream

if TYPE_CHECKING:
    from pml_hookspecs import Endpoint, Transport
    from pml_mcp.server_settings import ServerSettings

    from .connection.quota import Quota


AnyConnection = TypeVar("AnyConnection")
WORDS = frozenset(("description", "title", "instructions", "version"))
"""Members by which servers describe themselves and their tools."""


@dataclass(frozen=True, slots=True)
class RedactedLink:
    """A link whose answers have no secrets in what is said for people and models, which is kept and shown.

    Names, keys and values that may be chosen stay: what an operator refers to need not be secret, and a call with
    asterisks in it would fail.
    """

    link: Link
    redact: Callable[[str], str]

    async def request(self, method: str, params: Mapping[str, Any], *, timeout_s: float) -> RawObject:
        """As :meth:`pml_hookspecs.Link.request`."""
        answer = await self.link.request(method, params, timeout_s=timeout_s)
        text = answer.raw.decode(errors="surrogateescape")
        redacted = self.redact(text)
        if redacted == text:
            return answer
        try:
            return RawObject.of(_described(answer.value, self.redact))
        except RecursionError:  # nobody reads what is nested so deep
            return RawObject(redacted.encode(errors="surrogateescape"))

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """As :meth:`pml_hookspecs.Link.notify`."""
        self.link.notify(method, params)


def _described(value: Any, made: Callable[[str], str]) -> Any:
    """``value`` with each text under one of :data:`WORDS` as ``made`` makes it."""
    if isinstance(value, Mapping):
        return {k: made(v) if k in WORDS and isinstance(v, str) else _described(v, made) for k, v in value.items()}
    return [_described(inner, made) for inner in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionContext:
    """What every connection to one server needs of its surroundings."""

    name: str
    settings: ServerSettings
    find_endpoint: Callable[[], Awaitable[Endpoint]]
    open_transport: Callable[[str], Transport]
    log: Any
    upstream: Upstream
    starts: Starts
    start_timeout_s: float
    call_timeout_s: float
    quota: Quota
    redactor: Redactor

    def redacted(self, link: Link) -> RedactedLink:
        """``link``, its answers without secrets."""
        return RedactedLink(link, self.redactor.description)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionEvents(Generic[AnyConnection]):
    """Who hears of what happens to a connection."""

    ready: Callable[[AnyConnection, Link], Awaitable[None]]
    """Connected and introduced; raising ends the connection."""
    up: Callable[[], None]
    down: Callable[[str, str], None]
    """State (``down``, ``idle`` or ``starting``) and reason."""
    notified: Callable[[AnyConnection, str, RawObject], None]
    lists_changed: Callable[[AnyConnection, str], None]
    """With the notification for clients: what it lists besides tools differs from what they were shown."""
