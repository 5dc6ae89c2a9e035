"""Whom keys belong to, and what their holders may see of what ran: asked of the plugins that know."""

from __future__ import annotations

import getpass
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pml_core.catalog.server_views import SYSTEM
from pml_hookspecs import (
    CallNext,
    Failure,
    Identity,
    Outcome,
    Peer,
    Run,
    Scope,
    Session,
    Status,
    Task,
    UnauthenticatedError,
    View,
)

from .chain import ended

if TYPE_CHECKING:
    from pml_hookspecs import AccessEvent, AccessWatcher, ExecutionRecord, Identities

FRESH_S = 2.0
"""How long it is believed what was said of a key that work goes on with [s]."""
MOST_KEYS = 4096
"""Keys of which that is remembered."""
NARROWED = "The API key lets its holder have less than when this was begun"
UNKNOWN = Failure(
    "access.unavailable",
    "It cannot be looked up at the moment whether the key still counts that this was begun with; begin it again later.",
    retryable=True,
)


class AccessWatchers:
    """All who hear of access that no wrapper sees."""

    def __init__(self, found: Sequence[tuple[str, AccessWatcher]], log: Any) -> None:
        self._found, self._log = found, log

    def use(self, found: Sequence[tuple[str, AccessWatcher]]) -> None:
        """Tell these, each with its plugin, from now on."""
        self._found = found

    async def tell(self, event: AccessEvent) -> None:
        """Have them hear it, one after the other; one that fails is logged."""
        for plugin, watcher in self._found:
            try:
                await watcher(event)
            except Exception:
                self._log.exception("access was not noted", plugin=plugin)


def by_operator(event: AccessEvent) -> AccessEvent:
    """``event``, a change that no session made and that does not say ``by`` whom: by who runs this process."""
    if event.kind != "change" or event.session is not None or "by" in event.details:
        return event
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # one that the system does not know, as in some containers
        user = ""
    return replace(event, details={**event.details, "by": user})


class KnownIdentities:
    """All plugins that know keys."""

    def __init__(self, found: Sequence[tuple[str, Identities]], log: Any) -> None:
        self._found, self._log = found, log
        self._said: OrderedDict[str, tuple[float, Identity | None]] = OrderedDict()

    def use(self, found: Sequence[tuple[str, Identities]]) -> None:
        """Ask these, each with its plugin, from now on."""
        self._found = found

    async def identify(self, token: str | None) -> Identity | None:
        """Whose key it is; None when nobody knows it.

        Raises:
            UnauthenticatedError: One of them refuses it.
        """
        for _, identities in self._found:
            if (identity := await identities.identify(token)) is not None:
                return identity
        return None

    async def check(self, session: Session) -> None:
        """See that the key that ``session`` came with still lets it have what it has.

        Of a key that nobody knows, nothing is known.

        Raises:
            UnauthenticatedError: It does not.
            Exception: It cannot be known now.
        """
        key = session.access_key
        said_at, identity = self._said.get(key, (0.0, None))
        now = time.monotonic()
        if key not in self._said or now - said_at >= FRESH_S:
            self._said.pop(key, None)
            identity = await self._current(session)
            self._said[key] = now, identity
            if len(self._said) > MOST_KEYS:
                self._said.popitem(last=False)
        if identity is not None and _is_narrower(identity, session):
            raise UnauthenticatedError(NARROWED)

    async def _current(self, session: Session) -> Identity | None:
        for _, identities in self._found:
            current = getattr(identities, "current", None)
            if current is not None and (identity := await current(session)) is not None:
                found: Identity = identity
                return found
        return None

    async def scope(self, session: Session, *, results: bool) -> Scope:
        """Whose executions ``session`` may see. Where the plugin that should know fails, nobody's.

        Raises:
            UnauthenticatedError: A key is needed and there is none.
        """
        for plugin, identities in self._found:
            try:
                scope = await identities.scope(session, results=results)
            except UnauthenticatedError:
                raise
            except Exception:
                self._log.exception("nobody can say what may be seen", plugin=plugin)
                return Scope(principals=frozenset())
            if scope is not None:
                return scope
        return Scope(principals=None if SYSTEM in session.scopes else frozenset({session.principal}))


class KeyRecheck:
    """Refuses tasks of work for which no client waits, when the key that it was begun with does not count any more.

    Where a client waits, its listener sees to it: it ends what the client has open.
    """

    def __init__(self, identities: KnownIdentities, log: Any) -> None:
        self._identities, self._log = identities, log

    async def check(self, task: Task, run: Run, call_next: CallNext) -> Outcome:
        """Let the task pass or say why not."""
        try:
            await self._identities.check(run.session)
        except UnauthenticatedError as exc:
            message = f"{exc}: what was begun with it does not go on. Begin it again with a key that lets you."
            failure = Failure("access.ended", message, details={"key": run.session.access_key})
        except Exception as exc:
            self._log.warning("a key cannot be looked up", key=run.session.access_key, problem=repr(exc))
            failure = UNKNOWN
        else:
            return await call_next(task, run)
        return ended(task, datetime.now(UTC), Status.DENIED, failure=failure)


def _is_narrower(identity: Identity, session: Session) -> bool:
    """Whether a session has what its key would not give it any more."""
    if (identity.principal, identity.agent) != (session.principal, session.agent):
        return True
    if identity.dry_run_only and not session.dry_run_only:
        return True
    if not session.scopes <= identity.scopes or not set(identity.deny) <= set(session.deny):
        return True
    return identity.allow is not None and (session.allow is None or not set(session.allow) <= set(identity.allow))


def may_act_on(session: Session, record: ExecutionRecord) -> bool:
    """Whether ``session`` may stop an execution, which takes more than to see it.

    Those of its principal, and those of the agent that its key belongs to; with the scope ``system`` all.
    """
    own = bool(session.agent) and record.as_agent and record.agent == session.agent
    return own or record.principal == session.principal or SYSTEM in session.scopes


def peer_of(identity: Identity, endpoint: str, address: str) -> Peer:
    """A caller that is no MCP client, as the exposures want it."""
    return Peer(
        address=address,
        principal=identity.principal,
        scopes=identity.scopes,
        endpoint=endpoint,
        mode=identity.mode,
        intent=identity.intent,
        execution_mode=identity.execution_mode,
        dry_run_only=identity.dry_run_only,
        access_key=identity.access_key,
        agent=identity.agent,
        allow=identity.allow,
        deny=identity.deny,
    )


def session_of(peer: Peer, view: View, *, client: str, protocol: str = "", hint: str = "") -> Session:
    """Who asks. ``hint`` is the client's own; without one, its key's or its endpoint's counts."""
    intent = hint or view.intent
    parts = [peer.endpoint, peer.principal, " ".join(sorted(peer.scopes)), view.mode, intent]
    if peer.access_key:
        parts.append(peer.access_key)
    return Session(
        key="\n".join(parts),
        endpoint=peer.endpoint,
        principal=peer.principal,
        scopes=peer.scopes,
        client=client,
        protocol=protocol,
        intent=intent,
        mode=view.mode,
        execution_mode=view.execution_mode,
        dry_run_only=peer.dry_run_only,
        access_key=peer.access_key,
        agent=peer.agent,
        allow=peer.allow,
        deny=peer.deny,
    )
