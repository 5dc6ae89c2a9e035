"""What is held of servers until somebody has looked at it, for those who look at it through this gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from pml_catalog.definitions import accept_stored, stored_changes
from pml_hookspecs import InvalidArguments, ToolId, split_tool_id
from pml_kit.offers import AccessEvent, HeldDefinition, MissingScopeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pml_hookspecs import Session, Store
    from pml_mcp.ports import AccessWatchers

    from . import Server

SCOPE = "operate"
MOST = 200
"""Of which is told at once: the next ones show when these are taken."""
CHANGED = "it is not held any more, or its server says something else of it now; look at it again"


class LiveReview:
    """Implements :class:`pml_kit.offers.Review`."""

    def __init__(
        self, servers: Mapping[str, Server], store: Callable[[], Store | None], watchers: AccessWatchers
    ) -> None:  # fmt: skip
        """``store`` gives the open one."""
        self._servers, self._store, self._watchers = servers, store, watchers

    def held(self, session: Session) -> Sequence[HeldDefinition]:
        """Of all servers, as their lists are now."""
        if SCOPE not in session.scopes:
            return ()
        found = [*islice((one for name, server in self._servers.items() for one in _held(name, server)), MOST)]
        return sorted(found, key=lambda one: (one.tool, not one.locked))

    async def accept(self, session: Session, tool: ToolId, digest: str) -> None:
        """Write it where it is kept, and say so."""
        if SCOPE not in session.scopes:
            message = f"This key lacks the scope '{SCOPE}', which taking definitions needs"
            event = AccessEvent(
                kind="denied", target=f"definition of {tool}"[:200], session=session, code="access.denied",
                message=message,
            )  # fmt: skip
            await self._watchers.tell(event)
            raise MissingScopeError(message, (SCOPE,))
        if not (those := [one for one in self.held(session) if (one.tool, one.digest) == (tool, digest)]):
            raise InvalidArguments(f"{tool}: {CHANGED}")
        server, name = split_tool_id(tool)
        for one in those:
            await (self._into_lock if one.locked else self._into_store)(server, name, digest)
            details = {"server": server, "tools": {name: digest}, "lock": one.locked, "by": session.principal}
            event = AccessEvent(
                kind="change", target=server, session=session, code="definitions.accepted", details=details
            )  # fmt: skip
            await self._watchers.tell(event)

    async def _into_lock(self, server: str, tool: str, digest: str) -> None:
        from pml_catalog.lock.lock_file import LockError

        definitions = self._servers[server].tools.definitions
        guard: Any = None if definitions is None else definitions.guard
        change = None if guard is None else guard.changes.get(tool)
        if change is None or change.digest != digest:
            raise InvalidArguments(f"{server}:{tool}: {CHANGED}")
        try:
            await asyncio.to_thread(guard.accept, [change])
        except LockError as exc:
            raise InvalidArguments(str(exc)) from exc

    async def _into_store(self, server: str, tool: str, digest: str) -> None:
        from pml_catalog.lock.lock_file import digest_of

        store, settings = self._store(), self._servers[server].settings
        if store is None:
            raise InvalidArguments(f"{server}:{tool}: the store is not open")
        documents = store.documents
        found, version = await stored_changes(documents, server, settings)
        known = found.get(tool)
        if known is None or digest_of(known.now) != digest:
            raise InvalidArguments(f"{server}:{tool}: {CHANGED}")
        if not await accept_stored(documents, server, settings, [tool], version):
            raise InvalidArguments(f"{server}:{tool}: {CHANGED}")


def _held(name: str, server: Server) -> Iterator[HeldDefinition]:
    definitions = server.tools.definitions
    if definitions is None:
        return
    from pml_catalog.lock.difference import difference
    from pml_catalog.lock.lock_file import digest_of, judged

    guard: Any = definitions.guard
    for change in () if guard is None else [*guard.changes.values()]:
        if change.judgement.blocks:
            before = {} if change.before is None else judged(change.before)
            yield HeldDefinition(
                tool=ToolId(f"{name}:{change.tool}"), reasons=change.shown()["reasons"], digest=change.digest,
                difference=[*difference(before, judged(change.now))], locked=True,
            )  # fmt: skip
    for one in [*definitions.changes.values()] if definitions.holds else ():
        before = {} if one.before is None else judged(one.before)
        yield HeldDefinition(
            tool=ToolId(f"{name}:{one.tool}"), reasons=[f"changed: {', '.join(one.fields)}"], digest=digest_of(one.now),
            difference=[*difference(before, judged(one.now))], locked=False,
        )  # fmt: skip
