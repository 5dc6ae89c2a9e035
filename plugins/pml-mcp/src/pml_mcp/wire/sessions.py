"""Sessions: what a caller is known by, made of who it is and what it is shown."""

from __future__ import annotations

from pml_hookspecs import Identity, Peer, Session
from pml_kit.offers import View


def peer_of(identity: Identity, endpoint: str, address: str) -> Peer:
    """A caller that is no MCP client, as the exposures want it."""
    return Peer(address=address, endpoint=endpoint, **identity.members())


def session_of(peer: Peer, view: View, *, client: str, protocol: str = "", hint: str = "") -> Session:
    """Who asks. ``hint`` is the client's own; without one, its key's or its endpoint's counts."""
    intent = hint or view.intent
    parts = [peer.endpoint, peer.principal, " ".join(sorted(peer.scopes)), view.mode, intent]
    if peer.access_key:
        parts.append(peer.access_key)
    seen = {"intent": intent, "mode": view.mode, "execution_mode": view.execution_mode}
    key, endpoint = "\n".join(parts), peer.endpoint
    return Session(key=key, endpoint=endpoint, client=client, protocol=protocol, **{**peer.members(), **seen})
