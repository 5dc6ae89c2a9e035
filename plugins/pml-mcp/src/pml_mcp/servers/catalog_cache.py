"""The catalog from last time, so that a start need not wait for servers, and what is kept for the next time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pml_catalog.definitions import COLLECTION, LOCK, Change, Definitions, key_of
from pml_hookspecs import CatalogEntry, ServerStatus, Store
from pml_kit.offers import AccessEvent
from pml_mcp.wire.self_description import SelfDescription

if TYPE_CHECKING:
    from pml_catalog.live import LiveCatalog
    from pml_catalog.lock.guard import Guard
    from pml_catalog.lock.lock_file import Locks
    from pml_mcp.ports import AccessWatchers, BackgroundTasks, Configuration

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
"""How often it is looked whether what is held was accepted, and whether a lock has changed [s]."""
MOST_NAMED = 20
"""Changed tools of one list that have a line of their own."""
NO_LOCK = "there is no pml.lock: what servers say of their tools counts as it is; pml lock writes one"
State: TypeAlias = "Mapping[Path, tuple[int, int, int] | None]"


class LockWatch:
    """Gives each server the guard that goes by the lock that is there now."""

    def __init__(self, config: Callable[[], Configuration], servers: Mapping[str, Server], log: Any) -> None:
        """Nothing is read yet.

        Args:
            config: Gives the one in force, which says where the file of each server is, or would be.
            servers: Those there are at any time.
            log: The gateway's.
        """
        self._config, self._servers, self._log = config, servers, log
        self._locks: Locks | None = None
        """None while there is no file."""
        self._state: State | None = None
        self._guards: dict[str, tuple[Server, Guard]] = {}
        self._follows = False

    async def read(self) -> None:
        """Read the files if they are not as they were, and have the tools of all servers judged by them.

        One that cannot be read leaves in force what was read of it before; where that is nothing, nothing of its
        servers may be had.
        """
        paths = self._config().lock_paths()
        state = {path: _state_of(path) for path in paths.values()}
        if state == self._state:
            return
        before, first, self._state = self._locks, self._state is None, state
        self._locks = None
        if any(state.values()):
            from pml_catalog.lock.lock_file import Locks

            self._locks = await asyncio.to_thread(Locks, paths, before)
            for path, problem in self._locks.problems.items():
                known = (
                    "what was read before counts" if path in self._locks.files else "its servers' tools are not called"
                )
                self._log.error(f"a lock cannot be read: {known}", problem=problem)
        elif before is not None:
            self._log.warning("pml.lock is gone: what servers say of their tools counts as it is now")
        elif first and self._servers:
            self._log.info(NO_LOCK)
        self._guards.clear()
        for server in [*self._servers.values()]:
            if (definitions := server.tools.definitions) is not None:
                definitions.guard = self.guard(server)
                server.tools.judge_by(definitions)

    def guard(self, server: Server) -> Guard | None:
        """Whoever says which tools of a server may be had; None where nobody does."""
        trust, name = server.settings.trust, server.name
        if trust != "review" and (self._locks is None or not self._locks.exist_for(name)):
            return None
        known = self._guards.get(name)
        if known is None or known[0] is not server:
            from pml_catalog.lock.guard import Guard
            from pml_catalog.lock.lock_file import Locks

            known = self._guards[name] = server, Guard(name, self._locks or Locks({}), trust)
        return known[1]

    async def follow(self) -> None:
        """Look again and again, until cancelled. Once is enough."""
        if self._follows:
            return
        self._follows = True
        try:
            while True:
                await asyncio.sleep(ACCEPTED_S)
                await self.read()
        finally:
            self._follows = False


def _state_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class CatalogCache:
    """Keeps what servers list and how they are in the store."""

    def __init__(
        self,
        store: Store,
        background: BackgroundTasks,
        watchers: AccessWatchers,
        log: Any,
        lock: LockWatch | None = None,
    ) -> None:
        """``lock`` says what people took of servers; None where no file counts."""
        self._lock = lock
        self._waits: dict[str, list[dict[str, Any]]] = {}
        """By server, what was blocked of it, as it is kept."""
        self._store, self._background, self._watchers, self._log = store, background, watchers, log
        self._keeping: dict[str, asyncio.Event] = {}
        """Set when there is news of a server that is being kept up to date; by key."""

    async def begin(self, servers: Mapping[str, Server], catalog: LiveCatalog) -> None:
        """Show what is known of servers that are not up yet, and keep what they list from now on."""
        if self._lock is not None:
            await self._lock.read()
            self._background.spawn("core", self._lock.follow, (), "lock")
        described = {status.name: status.description for status in await self._store.catalog.statuses()}
        found = await self._store.documents.find(SLOW, limit=MOST)
        slow = {one.key for one in found.items if one.value["slow"]}
        found = await self._store.documents.find(WORDS, limit=MOST)
        known = await self._store.documents.find(DIFFERS, limit=MOST)
        differs = {one.key: (str(one.value["program"]), str(one.value["lists"])) for one in known.items}
        said = {one.key: SelfDescription.of(*(one.value.get(member) for member in SAID)) for one in found.items}
        for server in servers.values():
            blocked = await self._store.documents.get(LOCK, key_of(server.name, server.settings))
            self._waits[server.name] = [] if blocked is None else blocked.value["blocked"]
            kept = await self._store.documents.get(COLLECTION, key_of(server.name, server.settings))
            server.on_changed = self._changed
            server.tools.judge_by(self._of(server, None if kept is None else kept.value))
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
        if self._lock is not None and (guard := self._lock.guard(server)) is not None:
            words = server.greeting.words
            server.greeting.words = replace(words, instructions=guard.hear(words.instructions))
        kept = {member: getattr(server.greeting.words, member) for member in SAID}
        self._store.documents.put_soon(WORDS, key_of(server.name, server.settings), kept)

    def _save_difference(self, server: Server, program: str, lists: str) -> None:
        value = {"program": program, "lists": lists}
        self._store.documents.put_soon(DIFFERS, key_of(server.name, server.settings), value)

    # What was accepted

    def _changed(self, server: Server, changes: Sequence[Change]) -> None:
        """Say what is new, and keep what is known now."""
        self._tell_of_lock(server)
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
        self._report(server, "definitions.changed", tools, len(changes), on_change=server.settings.on_change)

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
        definitions = self._of(server, None if kept is None else kept.value)
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

    def _of(self, server: Server, kept: Mapping[str, Any] | None) -> Definitions:
        definitions = Definitions.of(kept, holds=server.settings.on_change == "hold")
        definitions.guard = None if self._lock is None else self._lock.guard(server)
        return definitions

    def _report(self, server: Server, code: str, tools: Mapping[str, Any], count: int, **more: Any) -> None:
        details = {"server": server.name, "tools": tools, "count": count, **more}
        event = AccessEvent(kind="change", target=server.name, code=code, details=details)
        self._background.spawn("core", self._watchers.tell, (event,), f"audit:{server.name}")

    def _tell_of_lock(self, server: Server) -> None:
        """Say what is otherwise than people took, once."""
        definitions = server.tools.definitions
        guard = None if definitions is None else definitions.guard
        waits = [] if guard is None else [one.shown() for one in guard.changes.values() if one.judgement.blocks]
        if self._waits.get(server.name, []) != waits:
            self._waits[server.name] = waits
            self._store.documents.put_soon(LOCK, key_of(server.name, server.settings), {"blocked": waits})
        news = [] if guard is None else guard.news()
        if blocked := [one for one in news if one.judgement.blocks]:
            for change in blocked[:MOST_NAMED]:
                told = change.shown()
                self._log.warning(
                    "a tool is blocked until somebody has looked at it: pml lock review", server=server.name,
                    tool=change.tool, verdict=told["verdict"], reasons=told["reasons"],
                )  # fmt: skip
            tools = {
                one.tool: {"digest": one.digest, "reasons": one.shown()["reasons"]} for one in blocked[:MOST_NAMED]
            }
            self._report(server, "definitions.blocked", tools, len(blocked))
        if new := [one for one in news if one.judgement.new and not one.judgement.blocks]:
            self._report(server, "definitions.new", {one.tool: one.digest for one in new[:MOST_NAMED]}, len(new))
        if harmless := [one.tool for one in news if not one.judgement.blocks]:
            self._log.info(
                "tools are not quite what is in the lock, which changes nothing for them: pml lock takes them",
                server=server.name, tools=harmless[:MOST_NAMED], count=len(harmless),
            )  # fmt: skip
