"""What connections to a server depend on, and who hears of what happens to them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pml_core.mcp.upstream import Upstream
from pml_core.servers.connection.starts import Starts
from pml_hookspecs import Link, RawObject

if TYPE_CHECKING:
    from pml_core.settings.config_tables import ServerSettings
    from pml_hookspecs import Transport

    from .connection.quota import Quota


Connection = TypeVar("Connection")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """What every connection to one server needs of its surroundings."""

    name: str
    settings: ServerSettings
    open_transport: Callable[[str], Transport]
    log: Any
    upstream: Upstream
    starts: Starts
    start_timeout_s: float
    call_timeout_s: float
    quota: Quota
    learn_secrets: Callable[[Iterable[str]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Events(Generic[Connection]):
    """Who hears of what happens to a connection."""

    ready: Callable[[Connection, Link], Awaitable[None]]
    """Connected and introduced; raising ends the connection."""
    up: Callable[[], None]
    down: Callable[[str, str], None]
    """State (``down``, ``idle`` or ``starting``) and reason."""
    notified: Callable[[Connection, str, RawObject], None]
    lists_changed: Callable[[Connection, str], None]
    """With the notification for clients: what it lists besides tools differs from what they were shown."""
