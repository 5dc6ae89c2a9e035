"""Who calls, what they may see of what ran, and who hears of it."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from pml_hookspecs import Key

if TYPE_CHECKING:
    from pml_hookspecs import Identity, Scope, Session


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


@runtime_checkable
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


@runtime_checkable
class KnownKeys(Protocol):
    """Identities that can tell which keys there are, for operators."""

    async def keys(self) -> Sequence[Identity]:
        """Whom each key that counts now stands for, the newest first; with :attr:`Identity.access_key`, no secret."""
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


@dataclass(frozen=True, slots=True)
class OpenRoute:
    """A route of ``pml_routes`` that is served to whoever can reach the listener, and sees to it itself who that is.

    ``request.state.identify(token)``, a coroutine function, gives the :class:`~pml_hookspecs.Identity` of whose key it
    is, as it would be for a request with it; with None it is whoever needs none. It raises
    :class:`~pml_hookspecs.UnauthenticatedError` where there is nobody. What such a route serves does not end with a key
    by itself.
    """

    route: Any
    """Of Starlette."""


class MissingScopeError(Exception):
    """Somebody is known, and what it came with is not enough. The message is for the caller."""

    def __init__(self, message: str, scopes: Sequence[str] = ()) -> None:
        """``scopes`` are those that it would need, all of them; none where no scope gives it."""
        super().__init__(message)
        self.scopes = tuple(scopes)


class ProtectedResource(Protocol):
    """Says where callers of a listener get access tokens, and what theirs are not enough for.

    Paths are those of HTTP requests, such as ``/mcp``.
    """

    def metadata(self, path: str) -> Mapping[str, Any] | None:
        """What clients read about the resource at ``path`` (RFC 9728), as JSON; ``""`` is all of the listener.

        Returns:
            None where there is nothing at this path that takes such tokens.
        """
        ...

    def challenge(self, path: str) -> Mapping[str, str]:
        """Parameters of ``WWW-Authenticate: Bearer`` for a client that has no token for ``path``, in order."""
        ...

    def check(self, identity: Identity, path: str) -> None:
        """See that what somebody came with is for ``path``; it is of no key that this one does not know.

        Raises:
            UnauthenticatedError: It is for something else.
            MissingScopeError: It allows nothing there.
        """
        ...

    def check_call(self, identity: Identity, params: Mapping[str, Any]) -> None:
        """See that it is enough for a call of a tool, with the ``params`` of ``tools/call``.

        Raises:
            MissingScopeError: It is not, and would be with further scopes.
        """
        ...


class AccessWatcher(Protocol):
    """Hears of access and changes that no wrapper sees.

    Of callers that were not let in, of requests about tasks (MCP extension ``tasks``), of a changed configuration;
    transports and commands tell of theirs by :meth:`Access.report`.
    """

    def __call__(self, event: AccessEvent, /) -> Awaitable[None]:
        """The caller is answered when it returns; what it raises is logged and changes nothing."""
        ...


class Access(Protocol):
    """What the gateway knows by all plugins that know keys, and tells all that watch."""

    async def identify(self, token: str | None) -> Identity | None:
        """Whose key ``token`` is, by the plugins that know keys; None when none of them does.

        Raises:
            UnauthenticatedError: It is refused, or a key is needed and there is none.
        """
        ...

    async def scope(self, session: Session, *, results: bool = False) -> Scope:
        """Whose executions ``session`` may see: as the plugins say that know keys.

        Without any: all with the scope ``system``, else those of the session's principal.

        Args:
            session: Who asks.
            results: False for lists and summaries, True for one execution with its output.

        Raises:
            UnauthenticatedError: A key is needed and there is none.
        """
        ...

    async def report(self, event: AccessEvent) -> None:
        """Tell those who watch that somebody was refused, or told of executions, or changed something.

        For what no wrapper sees. Returns when they have heard it; never raises.
        """
        ...


IDENTITIES: Key[Identities] = Key("identities", Identities, several="all", guards=True)
"""Asked by :class:`Access`. Without those who know keys everybody would be let in."""
PROTECTED_RESOURCE: Key[ProtectedResource] = Key("protected_resource", ProtectedResource, guards=True)
"""Asked by listeners for HTTP."""
ACCESS_WATCHERS: Key[AccessWatcher] = Key("access_watchers", AccessWatcher, several="all")
ACCESS: Key[Access] = Key("access", Access)
"""The gateway's own."""
