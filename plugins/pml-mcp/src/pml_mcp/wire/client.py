"""A client as those see it who work for it: servers, and the gateway's own tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

from pml_hookspecs import Failure, Peer, RawObject, Session

from .listeners import Listeners, ResourceOwner

NO_CLIENT = -31999
"""JSON-RPC code of our own, outside the range that JSON-RPC and MCP reserve: there is no client to ask, or it cannot
be known which."""
NOT_ASKED = Failure(
    "arguments.invalid",
    "requestState: this gateway did not give it out, or does not wait for it any more, and nothing was run; send the "
    "request again without requestState and inputResponses.",
)
"""Of an answer to a question that nobody here waits for: it must not begin anew what asked it."""
NEEDS: Mapping[str, str] = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}
"""Questions to a client and the capability that it needs for them."""


class Asker(Protocol):
    """Who asks a client something."""

    @property
    def name(self) -> str:
        """Of the server, say."""
        ...

    def tell(self, method: str, params: RawObject) -> None:
        """Hear a notification of the client's about the question, such as its progress."""
        ...


class Client(Protocol):
    """A client as servers see it: one of its requests, or the connected client at large."""

    @property
    def modern(self) -> bool:
        """Whether it speaks a revision without a handshake."""
        ...

    @property
    def person(self) -> object:
        """Whoever is asked in the end; two clients of one person may answer for each other."""
        ...

    @property
    def away(self) -> bool:
        """Whether it was answered with a question and has not come back yet, if it ever does."""
        ...

    @property
    def conversation(self) -> ConnectedClient:
        """What lives as long as the client's connection, or its principal's use of the gateway."""
        ...

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What it said that it can do."""
        ...

    @property
    def info(self) -> Mapping[str, Any] | None:
        """Its name and version for servers; None when they are told the gateway's."""
        ...

    @property
    def log_level(self) -> str | None:
        """The level from which it wants servers' log messages; None when it said nothing."""
        ...

    @property
    def answers_servers(self) -> bool:
        """Whether a server may ask it something that a human answers."""
        ...

    async def ask(self, asker: Asker, method: str, params: RawObject) -> Mapping[str, Any]:
        """Have it answer a question of a server's, or of the gateway's own.

        Raises:
            RpcError: It cannot, or answered with an error.
        """
        ...

    def tell(self, method: str, params: RawObject, *, unasked: bool = False, server: str = "") -> None:
        """Hand it a server's notification; ``unasked`` if the server tells of resources without subscriptions.

        ``server`` says whose it is, where that matters: two may have a resource of one URI.
        """
        ...


class ConnectedClient(ABC):
    """What is known of a client while it is connected, whichever of its requests is served."""

    at_large: Client
    """The client between its requests."""

    def __init__(self, peer: Peer, session: Session) -> None:
        self.peer = peer
        self.session = session
        """Who asks, with the mode and the hint that the configuration says now."""
        self.initialized = False
        self.capabilities: Mapping[str, Any] = {}
        """What the client said that it can do."""
        self.info: Mapping[str, Any] | None = None
        """Who the client said that it is; None before, and where it did not."""
        self.log_level: str | None = None
        self.subscribed: dict[str, tuple[ResourceOwner, str]] = {}
        """Resources that a client with a handshake wants to hear of: its URI, then the server and its URI there."""
        self.askers: dict[Any, Asker] = {}
        """Progress tokens of questions that the client is answering, and who asked."""
        self.listeners = Listeners()

    @abstractmethod
    def told_of_tools(self, server: str) -> None:
        """A server says that its tools have changed: whoever is shown it alone is told at once."""

    @abstractmethod
    def may_hear(self, server: str, method: str, params: RawObject) -> bool:
        """Whether a notification of a server's, which belongs to no request, is for this client."""

    @abstractmethod
    def hear_unasked(self, server: str, params: RawObject) -> None:
        """Tell the client of a changed resource that it did not ask about, by the URI that reads it."""

    @abstractmethod
    async def list_tools(self, params: RawObject) -> tuple[Mapping[str, Any], bool, int]:
        """The result of ``tools/list``, whether everybody gets the same from the endpoint, and its freshness [ms]."""

    @abstractmethod
    async def remember_list(self) -> None:
        """Know what the client sees, so that it is told when that changes."""

    @abstractmethod
    def list_may_differ(self) -> None:
        """A server lists something else for this client only."""


current_client: ContextVar[Client | None] = ContextVar("current_client", default=None)
"""The client whose request is being served in this context; None for the gateway's own work."""

current_principal: ContextVar[str] = ContextVar("current_principal", default="")
"""For whom the gateway works in this context while no client waits for it; ``""`` for nobody."""


@contextmanager
def unattended(principal: str) -> Iterator[None]:
    """In the block the gateway works for ``principal``, and no client waits for it."""
    tokens = current_client.set(None), current_principal.set(principal)
    try:
        yield
    finally:
        current_client.reset(tokens[0])
        current_principal.reset(tokens[1])


class Holder(NamedTuple):
    """Whose a connection is that serves nobody else, and what is listed by it."""

    key: object
    """The connected client, or else the principal by name."""
    principal: str
    client: Client | None
    """As it is asked; None where no client waits."""

    @classmethod
    def of(cls, client: Client) -> Holder:
        """A client, for the principal that it came with."""
        return cls(client.conversation, client.conversation.peer.principal, client)

    @classmethod
    def now(cls) -> Holder | None:
        """Whoever is served in this context; None for nobody."""
        if (client := current_client.get()) is not None:
            return cls.of(client)
        principal = current_principal.get()
        return cls(principal, principal, None) if principal else None

    @classmethod
    def acting_for(cls, principal: str) -> Holder:
        """Who is served in this context, if that is for ``principal``; or else that one, with nobody who waits."""
        now = cls.now()
        return now if now is not None and now.principal == principal else cls(principal, principal, None)
