"""Identities: who calls, and what they may see of what ran."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from .store import Scope
    from .types import Session


class UnauthenticatedError(Exception):
    """Nobody is let in like this. The message is for the caller, and quotes nothing of what it sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who a key belongs to, and what it may do."""

    principal: str
    """For whom: a person's name, or another that is unique."""
    access_key: str = ""
    """Public id of the key, never the key; ``""`` without one."""
    scopes: frozenset[str] = frozenset()
    agent: str = ""
    """The configured agent that the key belongs to; ``""`` for a person's or a system's."""
    mode: str = ""
    """Exposure mode; ``""`` for the endpoint's."""
    intent: str = ""
    """Hint at what it does; ``""`` for the endpoint's."""
    execution_mode: Literal["", "real", "dry_run"] = ""
    """What calls do that do not say themselves; ``""`` as at the endpoint."""
    dry_run_only: bool = False
    """True: whatever its holder asks for is rehearsed."""
    allow: tuple[str, ...] | None = None
    """Patterns of tool ids that it may have (``files:*``), as :func:`fnmatch.fnmatchcase` reads them; None for all."""
    deny: tuple[str, ...] = ()
    """Patterns of tool ids that it may not have, whatever :attr:`allow` says."""


class Identities(Protocol):
    """Knows keys, and what their holders may see. One that can be asked of a key again is a :class:`CurrentKeys`."""

    async def identify(self, token: str | None) -> Identity | None:
        """Whose key ``token`` is.

        Args:
            token: As the caller sent it; None when it sent none.

        Returns:
            None when this one does not know, and others may be asked.

        Raises:
            UnauthenticatedError: It has been revoked, say, or a key is needed and there is none.
        """
        ...

    async def scope(self, session: Session, *, results: bool) -> Scope | None:
        """Whose executions ``session`` may see.

        Args:
            session: Who asks.
            results: False for lists and summaries, True for one execution with its output.

        Returns:
            None when this one does not know whom the session belongs to.

        Raises:
            UnauthenticatedError: A key is needed and there is none. Anything else it raises means nobody's.
        """
        ...


class CurrentKeys(Protocol):
    """Identities that can say of a key what counts now, without the key itself."""

    async def current(self, session: Session) -> Identity | None:
        """What the key that ``session`` came with says now, by :attr:`Session.access_key`.

        Asked while work goes on for which no client waits: before each of its tasks, but of one key no more often than
        every two seconds. What the key does not let the session have any more ends the work.

        Returns:
            None when this one does not know the key.

        Raises:
            UnauthenticatedError: It does not count any more. Anything else it raises means that it cannot be known
                now; the task is refused then, too.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessEvent:
    """Somebody was refused or told of executions, or something was changed, where no wrapper could have seen it."""

    kind: Literal["denied", "refused", "query", "change"]
    """``denied``: it may not. ``refused``: it was answered as if there were no such thing, because there is none or it
    may not have it. ``query``: it was told of an execution. ``change``: an operator's command, or what the gateway
    took over by itself, changed what is kept, or what is in force."""
    target: str
    """What it asked for, such as ``POST /mcp`` or ``tasks/get``, without what stands in a query; what was changed."""
    session: Session | None = None
    """Who it is; None when nobody knows."""
    address: str = ""
    """Where it came from, such as ``host:port`` or ``stdio``; ``""`` when not known."""
    execution: str = ""
    """The execution it asked for, as it named it; ``""`` for none."""
    code: str = ""
    """Why, as a stable word such as ``access.unauthenticated``; ``""`` when it was not refused. Of a change, which one,
    such as ``history.pruned``: an audit lists it under this word."""
    message: str = ""
    """Why, as it was told; holds no key."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """More about a change, as JSON, such as who made it (``by``; left out by a command, it is who runs it) and what
    it was before; holds no secret."""


AccessWatcher: TypeAlias = Callable[[AccessEvent], Awaitable[None]]
"""Hears of access and changes. The caller is answered when it returns; what it raises is logged and changes nothing."""
