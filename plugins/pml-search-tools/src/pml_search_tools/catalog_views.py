"""What searches need of the catalog besides its ranking: worked out once for each revision, and once for each view."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pml_hookspecs import QUESTIONS, ToolId
from pml_kit.mcp.effects import only_reads
from pml_kit.mcp.tool_schemas import input_schema
from pml_kit.offers.presentation import is_hidden

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, CatalogEntry, Session

MOST_VIEWS = 64
MOST_DESCRIBED = 4096
"""Tools of which the short forms are kept; some 300 bytes each."""
WORD = re.compile(r"[^\W_]+")


def words_of(text: str) -> frozenset[str]:
    """Words in lower case, without a plural s."""
    return frozenset(word.removesuffix("s") for word in WORD.findall(text.lower()))


UNTELLING = words_of(
    "a about all an and any are be can day did do does for from has have hour how i in is it last me morning my night "
    "of on or our please recent recently show so tell that the there this to today tonight was we week were what when "
    "which who why with yesterday you"
)
"""Words that any question may have; those of time say when, and not what."""


def telling(words: frozenset[str]) -> frozenset[str]:
    """``words`` without those that any question may have."""
    return words - UNTELLING


def _questions(entry: CatalogEntry) -> Iterator[frozenset[str]]:
    about = entry.definition.get("_meta")
    asked = about.get(QUESTIONS) if isinstance(about, Mapping) else None
    yield from (telling(words_of(text)) for text in asked or () if isinstance(text, str))


class OwnTool(NamedTuple):
    """A tool of the gateway that is not listed."""

    entry: CatalogEntry
    name: frozenset[str]
    """Words of its name."""
    words: frozenset[str]
    """Words of its name and description."""
    questions: Sequence[frozenset[str]] = ()
    """Words of what people ask that it answers."""


class Tools:
    """All tools of one revision, by name and as the gateway's own."""

    def __init__(self, entries: Iterable[CatalogEntry]) -> None:
        self.own: list[OwnTool] = []
        self.servers: set[str] = set()
        """Names of servers that have tools."""
        self._by_name: dict[str, list[CatalogEntry]] = defaultdict(list)
        for entry in entries:
            if not entry.own:
                self.servers.add(entry.server)
                self._by_name[entry.name].append(entry)
            elif not entry.meta:
                name = words_of(entry.name)
                self.own.append(OwnTool(entry, name, name | words_of(entry.description), list(_questions(entry))))

    def named(self, query: str, catalog: Catalog) -> Iterator[CatalogEntry]:
        """Tools that have the name ``query`` in any of its spellings, hidden ones too; some twice.

        Each spelling is looked up for itself, because in :meth:`Catalog.resolve` one tool can be in another's way,
        which would tell of a tool that is hidden.
        """
        server, separator, tool = query.partition("__")
        spelt = catalog.get(ToolId(f"{server}:{tool}")) if separator else None
        for entry in (catalog.resolve(query), catalog.get(ToolId(query)), spelt):
            if entry is not None:
                yield entry
        yield from self._by_name.get(query, ())


class View:
    """What one who asks may know of a revision.

    Args:
        tools: All of that revision.
        catalog: At that revision.
        visible: Ids of what may be seen.
    """

    def __init__(self, tools: Tools, catalog: Catalog, visible: Collection[ToolId]) -> None:
        self._tools = tools
        self._visible = frozenset(visible)
        self._totals: Counter[str] = Counter()
        self._reading: Counter[str] = Counter()
        for entry in catalog:
            if entry.id in self._visible and not entry.own:
                self._totals[entry.server] += 1
                self._reading[entry.server] += only_reads(entry)
        self._hidden_servers = tools.servers - self._totals.keys()
        self.own = [tool for tool in tools.own if tool.entry.id in self._visible]
        """The gateway's tools that are not listed."""

    def __contains__(self, entry: CatalogEntry) -> bool:
        return entry.id in self._visible

    def named(self, query: str, catalog: Catalog) -> Iterator[CatalogEntry]:
        """Tools that have the name ``query``, in any spelling, but for those that are listed anyway, or never."""
        found = (entry for entry in self._tools.named(query, catalog) if entry in self)
        return (entry for entry in found if not (entry.meta or is_hidden(entry)))

    def total(self, server: str | None, *, reading: bool) -> int:
        """Tools of a server, or of all: any, or those that only read."""
        counts = self._reading if reading else self._totals
        return counts.total() if server is None else counts[server]

    def knows(self, server: str) -> bool:
        """Whether it may be told of ``server``: one of which all tools are hidden is hidden, too."""
        return server not in self._hidden_servers

    def servers(self, configured: Iterable[str]) -> list[str]:
        """Names of those that it may be told of, in order."""
        return sorted({name for name in configured if self.knows(name)} | self._totals.keys())


class CatalogViews:
    """Keeps what was worked out, for the catalog as it is."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._revision: str | None = None
        self._tools = Tools(())
        self._views: OrderedDict[int, tuple[Collection[ToolId], View]] = OrderedDict()
        self._described: OrderedDict[str, tuple[str, str]] = OrderedDict()

    def view(self, session: Session) -> View:
        """What ``session`` may know at this moment."""
        catalog = self._catalog
        if (revision := catalog.revision) != self._revision:
            self._revision, self._tools = revision, Tools(catalog)
            self._views.clear()
        visible = catalog.visible(session)
        # The object is kept, so its id is no other's.
        if (found := self._views.get(id(visible))) is None:
            found = self._views[id(visible)] = (visible, View(self._tools, catalog, visible))
        self._views.move_to_end(id(visible))
        if len(self._views) > MOST_VIEWS:
            self._views.popitem(last=False)
        return found[1]

    def described(self, entry: CatalogEntry) -> tuple[str, str]:
        """The first sentence of the description, and the parameters in one line."""
        if (found := self._described.get(entry.digest)) is None:
            from .describe import first_sentence, signature

            found = (first_sentence(entry.description), signature(input_schema(entry)))
            if entry.digest:
                self._described[entry.digest] = found
                if len(self._described) > MOST_DESCRIBED:
                    self._described.popitem(last=False)
            return found
        self._described.move_to_end(entry.digest)
        return found
