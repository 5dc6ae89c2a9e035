"""Which clients want to hear of changes of which resources over one connection."""

from __future__ import annotations

from collections.abc import Iterator

from pml_mcp.wire.client import Client


class Subscriptions:
    """Clients by URI. A client with a handshake subscribes once; of others, each open stream counts for itself."""

    def __init__(self) -> None:
        self._wanted: dict[str, set[object]] = {}

    def __len__(self) -> int:
        """How many URIs anybody wants to hear of."""
        return len(self._wanted)

    def __iter__(self) -> Iterator[str]:
        """The URIs."""
        return iter(tuple(self._wanted))

    def __contains__(self, uri: object) -> bool:
        """Whether anybody wants to hear of it."""
        return uri in self._wanted

    def add(self, uri: str, client: Client | None) -> bool:
        """Note that ``client`` wants to hear of ``uri``; False when it was noted already."""
        who, known = _who(client), self._wanted.setdefault(uri, set())
        if who in known:
            return False
        known.add(who)
        return True

    def remove(self, uri: str, client: Client | None) -> None:
        """Note that ``client`` no longer does."""
        self._discard(uri, _who(client))

    def of(self, conversation: object) -> list[str]:
        """What a client with a handshake wants to hear of."""
        return [uri for uri, known in self._wanted.items() if conversation in known]

    def left(self, conversation: object) -> list[str]:
        """Forget a client with a handshake; the URIs that now nobody wants to hear of."""
        uris = self.of(conversation)
        for uri in uris:
            self._discard(uri, conversation)
        return [uri for uri in uris if uri not in self]

    def _discard(self, uri: str, who: object) -> None:
        known = self._wanted.get(uri, set())
        known.discard(who)
        if not known:
            self._wanted.pop(uri, None)


def _who(client: Client | None) -> object:
    return client if client is None or client.modern else client.conversation
