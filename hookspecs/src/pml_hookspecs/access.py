"""Identities: who calls, and what they may see of what ran."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from ._markers import hookspec

if TYPE_CHECKING:
    from .services import Services
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
    allow: tuple[str, ...] | None = None
    """Patterns of tool ids that it may have (``files:*``), as :func:`fnmatch.fnmatchcase` reads them; None for all."""
    deny: tuple[str, ...] = ()
    """Patterns of tool ids that it may not have, whatever :attr:`allow` says."""


class Identities(Protocol):
    """Knows keys, and what their holders may see."""

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


class AccessHooks:
    """Hooks around who may do what."""

    @hookspec
    def pml_identities(self, services: Services) -> Iterable[Identities]:
        """Contribute those who know keys, asked in plugin-name order by ``Services.identify`` and ``Services.scope``.

        Called once, at start-up. Raising keeps the gateway from starting: without keys everybody would be let in.
        """
        return ()
