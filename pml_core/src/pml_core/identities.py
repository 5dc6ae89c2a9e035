"""Whom keys belong to, and what their holders may see of what ran: asked of the plugins that know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Identity, Peer, Scope, Session, UnauthenticatedError, View

if TYPE_CHECKING:
    from pml_hookspecs import Identities

SYSTEM = "system"
"""The scope whose holders see everyone's executions."""


class KnownIdentities:
    """All plugins that know keys."""

    def __init__(self, found: Sequence[tuple[str, Identities]], log: Any) -> None:
        self._found, self._log = found, log

    async def identify(self, token: str | None) -> Identity | None:
        """Whose key it is; None when nobody knows it.

        Raises:
            UnauthenticatedError: One of them refuses it.
        """
        for _, identities in self._found:
            if (identity := await identities.identify(token)) is not None:
                return identity
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
        access_key=peer.access_key,
        agent=peer.agent,
        allow=peer.allow,
        deny=peer.deny,
    )
