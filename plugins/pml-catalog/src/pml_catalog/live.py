"""The live catalog: every tool known right now, what clients call it, and how its server is doing."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pml_hookspecs import (
    GATEWAY_SERVER,
    CatalogEntry,
    Match,
    MetaTool,
    RawObject,
    ServerStatus,
    Session,
    ToolId,
    encode,
)
from pml_kit.offers import DefinitionFilter, Presentation, SearchIndex
from pml_kit.offers.presentation import is_hidden

from . import naming
from .addresses import ui_uris
from .lengths import check_words
from .search.kept_index import KeptIndex
from .search.search_apart import common, merged, search_apart
from .search.word_index import WordIndex
from .server_views import known_servers
from .tool_tables import Tables

KNOWN = ("up", "idle")
"""States of a server whose tools are known."""
VIEWS = 64
"""Sets of tools kept, one for each view that searched."""


def make_entry(server: str, definition: Mapping[str, Any], *, meta: bool = False) -> CatalogEntry:
    """A catalog entry for a tool as its server sent it."""
    raw = encode(definition)
    canonical = json.dumps(definition, sort_keys=True, separators=(",", ":"), default=dict).encode()
    digest = hashlib.sha256(canonical).hexdigest()
    return CatalogEntry(ToolId(f"{server}:{definition['name']}"), server, definition, len(raw) // 4, digest, meta)


class _View(NamedTuple):
    """What the filters keep for a session."""

    all: frozenset[ToolId]
    searched: frozenset[ToolId] | None
    """Without the gateway's own; None when nothing is hidden."""


class LiveCatalog:
    """The catalog that the gateway keeps. Implements :class:`pml_hookspecs.Catalog`.

    It answers for the client whose request is served in the context where it is asked: what a server lists for that
    client, and otherwise what it lists for all.
    """

    def __init__(self, log: Any, index: SearchIndex | None = None) -> None:
        """``index`` is searched until another is used; by words alone if None."""
        self._log, self._index = log, KeptIndex(WordIndex() if index is None else index, log)
        self._views: dict[tuple[str, str], _View] = {}
        self.tables = Tables()
        """What is listed, for all and for some."""
        self.changes = 0
        """Counts :meth:`changed`."""
        self._statuses: dict[str, ServerStatus] = {}
        self._listeners: list[Callable[[], None]] = []
        self._aliases: dict[str, CatalogEntry] = {}
        self.conditions: dict[ToolId, Callable[[Session], bool]] = {}
        """Of the gateway's own tools that are not listed to every client: whether one is."""
        self._clashes: set[tuple[ToolId, ToolId]] = set()
        self._pages: tuple[str, Mapping[str, Collection[str]]] | None = None
        self._refusing: Callable[[CatalogEntry, Session], str | None] | None = None
        self._hiding: Callable[[CatalogEntry, Session], bool] | None = None

    # What the gateway tells it

    def use_index(self, index: SearchIndex) -> None:
        """Search with ``index`` from now on."""
        self._index.use(index)

    def offer(self, tools: Iterable[MetaTool]) -> None:
        """Set the gateway's own tools."""
        pairs = [(make_entry(GATEWAY_SERVER, tool.definition, meta=tool.listed is not False), tool) for tool in tools]
        self.conditions = {entry.id: tool.listed for entry, tool in pairs if not isinstance(tool.listed, bool)}
        self.tables.own = sorted((entry for entry, _ in pairs), key=lambda e: e.name)
        self._aliases = {alias: entry for entry, tool in pairs for alias in tool.aliases}
        self._rebuild()

    def present(self, presentation: Presentation | None, filters: Sequence[tuple[str, DefinitionFilter]] = ()) -> None:
        """Show servers' tools as ``filters`` leave them, and ``presentation`` has them, from now on.

        Raises:
            OperatorError: It gives one the name of one of the gateway's own tools, which are offered before.
        """
        if presentation is None and not filters:
            return
        from .presentation import PresentedTools, check_names

        if presentation is not None:
            check_names(presentation.names, {**{e.name: e for e in self.tables.own}, **self._aliases})
        self.tables.presented = PresentedTools(presentation, self._log, filters)
        self._rebuild()

    def said(self, id: str, server: str, item: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """What clients have of what a server says besides tools, by :class:`pml_kit.offers.WordFilter`."""
        return item if (known := self.tables.presented) is None else known.said(id, server, item)

    def prefix(self, server: str, prefix: str) -> None:
        """Have the names of a server's tools begin with ``prefix`` for clients, or with nothing if it is empty."""
        self.tables.prefixes[server] = prefix

    def publish(self, server: str, entries: Sequence[CatalogEntry]) -> None:
        """Make ``entries`` all that ``server`` has. Listeners hear of it when that changes anything."""
        known = self.tables.lists.of(server, entries)
        if self.tables.theirs.get(server) is known:
            return
        self.tables.theirs[server] = known
        self._rebuild()

    def digests(self) -> Mapping[str, str]:
        """What tells each server's list from others, by server; the same at every gateway that has the same."""
        return {server: known.key[1] for server, known in self.tables.theirs.items()}

    def forget(self, server: str) -> None:
        """A server is not configured any more."""
        self._statuses.pop(server, None)
        self.tables.prefixes.pop(server, None)
        self.tables.apart(server, None)
        listed = self.tables.theirs.pop(server, None)
        if listed is not None and listed.entries:
            self._rebuild()

    def report(self, status: ServerStatus) -> None:
        """Note how a server is doing."""
        self._statuses[status.name] = status

    def filter_with(
        self,
        refusing: Callable[[CatalogEntry, Session], str | None],
        hiding: Callable[[CatalogEntry, Session], bool] | None = None,
    ) -> None:
        """Have :meth:`allows` ask ``refusing``, which gives the name of the plugin that drops an entry, or None.

        ``hiding`` says whether not even that there is an entry may be told; without it nothing is hidden.
        """
        self._refusing, self._hiding = refusing, hiding
        self._views.clear()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called after every change of the set of tools or of a definition."""
        self._listeners.append(listener)

    def _rebuild(self) -> None:
        table = self.tables.rebuild()
        for kept, renamed in set(table.clashes) - self._clashes:
            self._log.warning(
                "two tools have the same name for clients; the second is renamed",
                first=kept,
                second=renamed,
                name=table.names[kept],
                renamed_to=table.names[renamed],
            )
        self._clashes = set(table.clashes)
        self.changed()

    def changed(self) -> None:
        """Something is listed that is not what it was, for all or for some."""
        self.changes += 1
        for listener in self._listeners:
            listener()

    # What anyone may ask: pml_hookspecs.Catalog

    @property
    def revision(self) -> str:
        return self.tables.now().revision

    def __len__(self) -> int:
        return len(self.tables.now().entries)

    def __iter__(self) -> Iterator[CatalogEntry]:
        return iter(self.tables.now())

    def get(self, id: ToolId) -> CatalogEntry | None:
        return self.tables.now().entries.get(id)

    def resolve(self, name: str, session: Session | None = None) -> CatalogEntry | None:
        table = self.tables.now()
        for entry in (
            table.by_name.get(name),
            table.entries.get(ToolId(name)),
            self._aliases.get(name),
            self._spelt(name),
        ):
            if entry is not None and not self.hides(entry, session):
                return entry
        if not (named := table.bare.get(name)):
            return None
        found = [entry for entry in named if not self.hides(entry, session)]
        return found[0] if len(found) == 1 else None

    def _spelt(self, name: str) -> CatalogEntry | None:
        """``server__tool`` of a tool whose exposed name had to be another."""
        server, separator, tool = name.partition(naming.SEPARATOR)
        return self.get(ToolId(f"{server}:{tool}")) if separator else None

    def exposed_name(self, id: ToolId) -> str:
        return self.tables.now().names[id]

    def servers(self, session: Session | None = None) -> Sequence[ServerStatus]:
        found = [self._statuses[name] for name in sorted(self._statuses)]
        return found if session is None else known_servers(found, self.visible(session), session)

    def allows(self, entry: CatalogEntry, session: Session) -> bool:
        return self._refusing is None or self._refusing(entry, session) is None

    def hides(self, entry: CatalogEntry, session: Session | None) -> bool:
        """Whether ``session`` is answered as if there were no such tool; from no session nothing is hidden."""
        return session is not None and self._hiding is not None and self._hiding(entry, session)

    def visible(self, session: Session) -> Collection[ToolId]:
        return self._view(session).all

    async def search(
        self,
        query: str,
        *,
        limit: int,
        min_score: float = 0.0,
        session: Session | None = None,
        keep: Callable[[CatalogEntry], bool] | None = None,
    ) -> Sequence[Match]:
        check_words(query, "the query")
        table, shared = self.tables.now(), self.tables.shared
        among = None if session is None else self._view(session).searched
        if keep is not None or (among is None and table is not shared):
            may = among
            among = frozenset(e.id for e in table if _searched(e, may) and (keep is None or keep(e)))
        found = await self._index.search(
            query,
            shared.revision,
            lambda: [e for e in shared if _searched(e, None)],
            limit=limit,
            min_score=min_score,
            among=among if table is shared else common(table, shared, among),
            session=session,
        )
        found = [match for match in found if match.id in table.entries]  # the index may be of a moment ago
        if table is not shared and among is not None:
            found = merged(found, await search_apart(table, shared, among, query, limit, min_score), limit)
        return found

    def _view(self, session: Session) -> _View:
        key = (self.revision, session.key)
        if (view := self._views.get(key)) is None:
            kept = [e for e in self if self.allows(e, session)]
            everything = frozenset(e.id for e in kept)
            hides = len(everything) != len(self)
            theirs = frozenset(e.id for e in kept if _searched(e, None)) if hides else None
            view = _View(everything, theirs)
            if len(self._views) >= VIEWS:
                del self._views[next(iter(self._views))]
            self._views[key] = view
        return view

    async def close(self) -> None:
        """Give up the index that is being built."""
        await self._index.close()

    # What the core asks besides

    def pages(self) -> Mapping[str, Collection[str]]:
        """By server, the URIs of the pages (MCP Apps) that its tools name."""
        if self._pages is None or self._pages[0] != self.revision:
            found: dict[str, set[str]] = {}
            for entry in self:
                if uris := ui_uris(entry.definition.get("_meta")):
                    found.setdefault(entry.server, set()).update(uris)
            self._pages = (self.revision, found)
        return self._pages[1]

    def left_out(self, session: Session) -> frozenset[ToolId]:
        """Ids of the gateway's own tools that the modes list, and that are not for ``session``'s client."""
        return frozenset(id for id in self.conditions if not self._is_listed(id, session))

    def _is_listed(self, id: ToolId, session: Session) -> bool:
        try:
            return self.conditions[id](session) is True
        except Exception:
            self._log.exception("a plugin failed to say whether its tool is listed; from now on it is not", tool=id)
            self.conditions[id] = _nobody
            return False

    def status(self, server: str) -> ServerStatus | None:
        """How ``server`` is doing; None when it is not configured."""
        return self._statuses.get(server)

    def servers_of(self, tool: str, session: Session) -> tuple[list[ServerStatus], list[ServerStatus]]:
        """As :func:`naming.servers_of`, of the servers that ``session`` may know of."""
        shown = {status.name: status for status in self.servers(session)}
        named, bare = naming.servers_of(tool, {name: self.tables.prefixes.get(name) for name in shown})
        return [shown[name] for name in named], [shown[name] for name in bare]

    def unlisted(self, tool: str, session: Session) -> list[CatalogEntry]:
        """What stands for a tool that is not listed: one for each server that may serve it, by the name alone.

        There is none while one of these is not up, for what ``session`` may not know of, for names that MCP does not
        allow, and for those that differ only in writing from what the server lists.
        """
        named, bare = self.servers_of(tool, session)
        found: list[CatalogEntry] = []
        may_have = [status for status in named or bare if status.state != "disabled"]
        if any(status.state not in KNOWN for status in may_have):
            return found
        for status in may_have:
            own = naming.own_name(tool, status.name, self.tables.prefixes.get(status.name))
            entry = CatalogEntry(ToolId(f"{status.name}:{own}"), status.name, RawObject.of({"name": own}), 0)
            if not naming.is_plain(own) or self.hides(entry, session):
                continue
            theirs = (entry for entry in self if entry.server == status.name)
            if not any(naming.folded(one.name) == naming.folded(own) for one in theirs):
                found.append(entry)
        return found

    def nearest(self, name: str, session: Session, count: int = 3) -> list[str]:
        """Exposed names of what ``session`` may have that look like ``name``, best first; also by the tool's own."""
        visible, name = self.visible(session), name[: 2 * naming.LONGEST]
        among = {n: e for n, e in self.tables.now().by_name.items() if e.id in visible and not is_hidden(e)}
        tool = name.replace(":", naming.SEPARATOR).rpartition(naming.SEPARATOR)[2].lower()
        exact = [n for n, e in among.items() if e.name.lower() == tool]
        close = difflib.get_close_matches(name.replace(":", naming.SEPARATOR), among, n=count, cutoff=0.7)
        return list(dict.fromkeys([*sorted(exact), *close]))[:count]


def _searched(entry: CatalogEntry, among: Collection[ToolId] | None) -> bool:
    """Whether a search may find an entry; with no ``among``, all but the gateway's own and what no list has."""
    return entry.id in among if among is not None else not (entry.own or is_hidden(entry))


def _nobody(_session: Session) -> bool:
    """Says of every client that a tool is not listed to it."""
    return False
