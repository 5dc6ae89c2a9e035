"""What clients are shown and which there are, for plugins that measure or explain it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from pml_hookspecs import Key

if TYPE_CHECKING:
    from datetime import datetime

    from pml_hookspecs import CatalogEntry, Session, ToolId


@dataclass(frozen=True, slots=True)
class View:
    """What the clients of one endpoint are shown."""

    endpoint: str
    mode: str
    """Name of the exposure mode."""
    intent: str = ""
    execution_mode: Literal["", "real", "dry_run"] = ""
    """What a call does that does not say itself; ``""`` as the gateway is configured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Whether a list has a tool, and why: in the words of whoever decides."""

    listed: bool
    why: str
    """A few words for operators."""


class Views(Protocol):
    """The lists that clients get, for plugins that measure or explain them."""

    def endpoints(self) -> Sequence[View]:
        """As configured, ``default`` first."""
        ...

    async def listed(
        self, mode: str, *, intent: str = "", settings: Mapping[str, Any] | None = None
    ) -> Sequence[CatalogEntry]:
        """What a local client would be shown, in order.

        Args:
            mode: Name of an installed exposure mode.
            intent: Hint at what the client does.
            settings: Members of the mode's own table that take the place of those configured, to try them out.

        Raises:
            LookupError: No such mode is installed.
            ValueError: The settings do not fit.
        """
        ...

    async def explained(self, tool: ToolId, view: View) -> Listing:
        """Whether a local client of ``view`` is shown a tool, and why.

        Raises:
            LookupError: There is no such tool, or no such mode is installed.
        """
        ...

    def refusal(self, tool: ToolId, session: Session) -> str:
        """Who keeps ``session`` from having a tool in any mode, and why as far as they say; ``""`` where nobody does.

        Raises:
            LookupError: There is no such tool.
        """
        ...


Words: TypeAlias = Literal["trusted", "untrusted", "strangers"]
"""Of a server: its results may decide anything; nothing about where tools of other servers send, write or delete; nor,
as they are what strangers wrote, about where its own do."""


@dataclass(frozen=True, slots=True, order=True)
class ClientConnection:
    """A client while it is connected; one without a session, while a request of its is answered or a stream is open."""

    client: str
    """The name and the version that it gives itself; ``""`` before it has."""
    principal: str
    endpoint: str
    mode: str
    """Name of the exposure mode that counts for it."""


class Connections(Protocol):
    """Who is connected, and when servers are tried again."""

    def clients(self, session: Session) -> Sequence[ClientConnection]:
        """Those that ``session`` may know of: all for an operator, else those of its principal. In order."""
        ...

    def next_attempts(self) -> Mapping[str, datetime]:
        """When servers that are down are tried again (UTC), by name; without those that are being tried or given up."""
        ...

    def words(self) -> Mapping[str, Words]:
        """What the results of each configured server may decide (``[servers.<name>] words``), by its name."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldDefinition:
    """A tool that is not called as its server defines it now, until somebody has looked at that."""

    tool: ToolId
    reasons: Sequence[str]
    """In a few words each, the worst first."""
    difference: Sequence[str]
    """Lines: what was taken before, and what is there now, for people; nothing in them that is not seen."""
    digest: str
    """Of what is there now."""
    locked: bool
    """Whether ``pml.lock`` says so, and not only what the gateway remembers (``on_change = "hold"``)."""


class Review(Protocol):
    """What waits for somebody to look at it, and what they say."""

    def held(self, session: Session) -> Sequence[HeldDefinition]:
        """By tool; nothing for who may not take any, which needs the scope ``operate``."""
        ...

    async def accept(self, session: Session, tool: ToolId, digest: str) -> None:
        """Take a tool as it was shown, for every gateway; whoever watches access hears of it.

        Raises:
            MissingScopeError: ``session`` may not.
            InvalidArguments: It is not held, or not as it was shown, or what keeps it cannot be written.
        """
        ...


CONNECTIONS: Key[Connections] = Key("connections", Connections)
"""The gateway's own."""
REVIEW: Key[Review] = Key("review", Review)
"""The gateway's own."""
VIEWS: Key[Views] = Key("views", Views)
"""The gateway's own."""
