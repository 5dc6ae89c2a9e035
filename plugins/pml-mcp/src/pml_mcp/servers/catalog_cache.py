"""The catalog from last time, so that a start need not wait for servers, and what is kept for the next time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from pml_catalog.definitions import COLLECTION, Change, Definitions, key_of
from pml_hookspecs import CatalogEntry, ServerStatus, Store
from pml_kit.offers import AccessEvent
from pml_mcp.wire.self_description import SelfDescription

if TYPE_CHECKING:
    from pml_catalog.live import LiveCatalog
    from pml_mcp.ports import AccessWatchers, BackgroundTasks

    from . import Server

SLOW = "core.slow_servers"
"""Documents, one for each server that somebody waited for in vain, and what it is started from."""
MOST = 1000
"""Of these that are read [documents]."""
WORDS = "core.words"
"""Documents, one for each server and what it is started from: what it said of itself when it came up last."""
DIFFERS = "core.differs"
"""Documents, one for each server: which program it was, and whether that lists more for clients that can more."""
SAID = ("about", "instructions", "declared")
"""Members of these documents."""
ACCEPTED_S = 1.0
"""How often it is looked whether what is held was accepted [s]."""
MOST_NAMED = 20
"""Changed tools of one list that have a line of their own."""


class CatalogCache:
    """Keeps what servers list and how they are in the store."""

    def __init__(self, store: Store, background: BackgroundTasks, watchers: AccessWatchers, log: Any) -> None:
        self._store, self._background, self._watchers, self._log = store, background, watchers, log
        self._keeping: dict[str, asyncio.Event] = {}
        """Set when there is news of a server that is being kept up to date; by key."""

    async def begin(self, servers: Mapping[str, Server], catalog: LiveCatalog) -> None:
        """Show what is known of servers that are not up yet, and keep what they list from now on."""
        described = {status.name: status.description for status in await self._store.catalog.statuses()}
        found = await self._store.documents.find(SLOW, limit=MOST)
        slow = {one.key for one in found.items if one.value["slow"]}
        found = await self._store.documents.find(WORDS, limit=MOST)
        known = await self._store.documents.find(DIFFERS, limit=MOST)
        differs = {one.key: (str(one.value["program"]), str(one.value["lists"])) for one in known.items}
        said = {one.key: SelfDescription.of(*(one.value.get(member) for member in SAID)) for one in found.items}
        for server in servers.values():
            kept = await self._store.documents.get(COLLECTION, key_of(server.name, server.settings))
            server.on_changed = self._changed
            server.tools.judge_by(_of(server, None if kept is None else kept.value))
            server.on_listed, server.on_status = self._save_tools, self._save_status
            server.slow = server.slow or key_of(server.name, server.settings) in slow
            server.on_slow = self._save_slow
            server.greeting.on_said = partial(self._save_words, server)
            difference = server.client_lists.difference
            difference.remembered = difference.remembered or differs.get(key_of(server.name, server.settings))
            difference.on_found = partial(self._save_difference, server)
            if server.greeting.words == SelfDescription():
                server.greeting.words = said.get(key_of(server.name, server.settings), SelfDescription())
            else:
                self._save_words(server)
            if server.status.state == "up":
                self._save_tools(server, catalog.tables.listed(server.name))
                self._save_status(server.status)
            elif server.settings.enabled:
                entries = await self._store.catalog.entries(server.name, server.fingerprint)
                server.remember(entries, described.get(server.name, ""))

    def _save_tools(self, server: Server, entries: list[CatalogEntry]) -> None:
        arguments = (server.name, server.fingerprint, entries)
        self._background.spawn("core", self._store.catalog.replace, arguments, f"save:{server.name}")

    def _save_status(self, status: ServerStatus) -> None:
        self._background.spawn("core", self._store.catalog.report, (status,), f"report:{status.name}")

    def _save_slow(self, server: Server) -> None:
        self._store.documents.put_soon(SLOW, key_of(server.name, server.settings), {"slow": server.in_vain})

    def _save_words(self, server: Server) -> None:
        kept = {member: getattr(server.greeting.words, member) for member in SAID}
        self._store.documents.put_soon(WORDS, key_of(server.name, server.settings), kept)

    def _save_difference(self, server: Server, program: str, lists: str) -> None:
        value = {"program": program, "lists": lists}
        self._store.documents.put_soon(DIFFERS, key_of(server.name, server.settings), value)

    # What was accepted

    def _changed(self, server: Server, changes: Sequence[Change]) -> None:
        """Say what is new, and keep what is known now."""
        key = key_of(server.name, server.settings)
        if (news := self._keeping.get(key)) is not None:
            news.set()
        else:
            news = self._keeping[key] = asyncio.Event()
            self._background.spawn("core", self._keep, (server, key, news), f"definitions:{server.name}")
        if not changes:
            return
        what = "is held until it is accepted" if server.settings.on_change == "hold" else "is used as it is now"
        for change in changes[:MOST_NAMED]:
            self._log.warning(
                f"the definition of a tool has changed, and {what}: pml servers accept {server.name}",
                server=server.name,
                tool=change.tool,
                changed=list(change.fields),
            )
        if (more := len(changes) - MOST_NAMED) > 0:
            self._log.warning("the definitions of more tools have changed", server=server.name, tools=more)
        tools = {change.tool: list(change.fields) for change in changes[:MOST_NAMED]}
        details = {"server": server.name, "tools": tools, "count": len(changes), "on_change": server.settings.on_change}
        event = AccessEvent(kind="change", target=server.name, code="definitions.changed", details=details)
        self._background.spawn("core", self._watchers.tell, (event,), f"audit:{server.name}")

    async def _keep(self, server: Server, key: str, news: asyncio.Event) -> None:
        """Bring what is kept up to date, until nothing waits to be accepted any more."""
        problem = ""
        while not server.retired:
            news.clear()
            try:
                waits = await self._agree(server, key)
                problem = ""
            except Exception as exc:
                waits = True
                if problem != (problem := str(exc) or repr(exc)):
                    self._log.warning("what was accepted cannot be kept", server=server.name, problem=problem)
            if not waits and not news.is_set():
                break
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), ACCEPTED_S)
        del self._keeping[key]

    async def _agree(self, server: Server, key: str) -> bool:
        """Agree with what is kept, which others may have changed; whether anything waits to be accepted."""
        kept = await self._store.documents.get(COLLECTION, key)
        definitions = _of(server, None if kept is None else kept.value)
        listed = server.tools.listed
        definitions.judge(listed)
        now = definitions.kept()
        if now is not None and (kept is None or now != kept.value):
            version = 0 if kept is None else kept.version
            if await self._store.documents.put(COLLECTION, key, now, if_version=version) is None:
                return True  # somebody else was faster
        if server.tools.listed is not listed:
            return True  # judged by what was kept before it was listed, its changes would be said twice
        current = server.tools.definitions
        if current is None or now != current.kept():
            server.tools.judge_by(definitions)
        return bool(definitions.changes)


def _of(server: Server, kept: Mapping[str, Any] | None) -> Definitions:
    return Definitions.of(kept, holds=server.settings.on_change == "hold")
