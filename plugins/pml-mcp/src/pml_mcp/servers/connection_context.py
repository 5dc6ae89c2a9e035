"""What connections to a server depend on, and who hears of what happens to them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pml_hookspecs import Link, RawObject
from pml_mcp.servers.connection.starts import Starts
from pml_mcp.wire.upstream import Upstream

if TYPE_CHECKING:
    from pml_hookspecs import Endpoint, Transport
    from pml_mcp.server_settings import ServerSettings

    from .connection.quota import Quota


AnyConnection = TypeVar("AnyConnection")


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
