"""Whom keys belong to, and what their holders may see of what ran: asked of the plugins that know."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pml_catalog.server_views import SYSTEM
from pml_hookspecs import Identity, Scope, Session, UnauthenticatedError, replace

if TYPE_CHECKING:
    from pml_kit.offers import AccessEvent, AccessWatcher, Identities


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
        self.found, self._log = found, log

    def use(self, found: Sequence[tuple[str, Identities]]) -> None:
        """Ask these, each with its plugin, from now on."""
        self.found = found

    async def identify(self, token: str | None) -> Identity | None:
        """Whose key it is; None when nobody knows it.

        Raises:
            UnauthenticatedError: One of them refuses it.
        """
        for _, identities in self.found:
            if (identity := await identities.identify(token)) is not None:
                return identity
        return None

    async def scope(self, session: Session, *, results: bool) -> Scope:
        """Whose executions ``session`` may see. Where the plugin that should know fails, nobody's.

        Raises:
            UnauthenticatedError: A key is needed and there is none.
        """
        for plugin, identities in self.found:
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


class LiveAccess:
    """What plugins are told of keys, and tell of access. Implements :class:`pml_kit.offers.Access`."""

    def __init__(self, identities: KnownIdentities, watchers: AccessWatchers) -> None:
        self._identities, self._watchers = identities, watchers

    async def identify(self, token: str | None) -> Identity | None:
        """Whose key it is; None when no plugin knows it."""
        return await self._identities.identify(token)

    async def scope(self, session: Session, *, results: bool = False) -> Scope:
        """Whose executions ``session`` may see."""
        return await self._identities.scope(session, results=results)

    async def report(self, event: AccessEvent) -> None:
        """Tell those who watch it that somebody was refused, told of executions, or changed something."""
        await self._watchers.tell(by_operator(event))
