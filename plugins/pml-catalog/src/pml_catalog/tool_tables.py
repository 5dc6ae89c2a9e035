"""Lists of tools, each kept once, and tables of all tools and their names: for all clients, and for some."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pml_hookspecs import CatalogEntry, ToolId

from . import naming

if TYPE_CHECKING:
    from .presentation import PresentedTools

MOST_APART = 64
"""Tables kept besides the one for all."""
ListKey = tuple[str, str]
"""A server, and what stands for all that it lists."""


class ToolList:
    """What one server lists, by name. Equal ones are one object: compare with ``is``."""

    __slots__ = ("__weakref__", "entries", "key")

    def __init__(self, key: ListKey, entries: Sequence[CatalogEntry]) -> None:
        self.key, self.entries = key, entries


class ToolLists:
    """All lists that somebody keeps; one that nobody keeps any more is gone."""

    def __init__(self) -> None:
        self._known: weakref.WeakValueDictionary[ListKey, ToolList] = weakref.WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, key: ListKey) -> bool:
        return key in self._known

    def of(self, server: str, entries: Iterable[CatalogEntry]) -> ToolList:
        """The list of these tools of a server: the one that is known where there is an equal one."""
        ordered = sorted(entries, key=lambda e: e.name)
        state = "\n".join(f"{e.id} {e.digest}" for e in ordered)
        key = (server, hashlib.sha256(state.encode("utf-8", "surrogatepass")).hexdigest())
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = ToolList(key, ordered)
        return known


class Table:
    """Every tool of some lists, and what clients call it."""

    def __init__(
        self,
        own: Sequence[CatalogEntry],
        theirs: Mapping[str, ToolList],
        prefixes: Mapping[str, str],
        presented: PresentedTools | None = None,
    ) -> None:
        """``own`` are the gateway's tools, ``theirs`` the servers', which are shown as ``presented`` has them."""
        listed = [e for one in theirs.values() for e in one.entries]
        everything = [*own, *(listed if presented is None else presented.of(listed))]
        everything.sort(key=lambda e: (e.server, e.name))
        self.entries: dict[ToolId, CatalogEntry] = {e.id: e for e in everything}
        # The gateway's own names come first, and then those that its operator gives: no server can take one.
        own_first = sorted(everything, key=lambda e: (not e.own, not naming.is_given(e)))
        self.names, self.clashes = naming.expose(own_first, prefixes)
        self.by_name = {name: self.entries[id] for id, name in self.names.items()}
        self.bare: dict[str, list[CatalogEntry]] = {}
        for entry in everything:
            if not entry.own:
                for name in (entry.name, *naming.other_names(entry)):
                    self.bare.setdefault(name, []).append(entry)
        self._revision: str | None = None

    def __iter__(self) -> Iterator[CatalogEntry]:
        return iter(self.entries.values())

    @property
    def revision(self) -> str:
        """Changes with the tools and their definitions; equal tables have the same."""
        if self._revision is None:
            state = "\n".join(f"{e.id} {e.digest} {e.meta}" for e in self)
            self._revision = hashlib.sha256(state.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return self._revision


class Tables:
    """What is listed for all, and what for some clients only."""

    def __init__(self) -> None:
        self.lists = ToolLists()
        self.own: list[CatalogEntry] = []
        """The gateway's."""
        self.theirs: dict[str, ToolList] = {}
        """What each server lists for all."""
        self.prefixes: dict[str, str] = {}
        self.presented: PresentedTools | None = None
        """None where every tool is shown as its server has it."""
        self.shared = Table((), {}, {})
        self._apart: dict[str, Callable[[], ToolList | None]] = {}
        self._kept: dict[tuple[int, tuple[ListKey, ...]], Table] = {}
        self._made = 0

    def listed(self, server: str) -> list[CatalogEntry]:
        """What a server lists for all, as it does."""
        found = self.theirs.get(server)
        return [] if found is None else [*found.entries]

    def rebuild(self) -> Table:
        """Make the table for all anew."""
        self.shared = Table(self.own, self.theirs, self.prefixes, self.presented)
        self._made += 1
        self._kept.clear()
        return self.shared

    @property
    def one_for_all(self) -> bool:
        """Whether no server lists anything for some clients only."""
        return not self._apart

    def apart(self, server: str, of: Callable[[], ToolList | None] | None) -> None:
        """Ask ``of`` what a server lists for the client whose request is served in the context where it is called.

        None from it stands for the list for all; None in place of it for a server that lists the same for all.
        """
        if of is None:
            self._apart.pop(server, None)
        else:
            self._apart[server] = of

    def now(self) -> Table:
        """The table of the client whose request is served in this context; the one for all where it is nobody's."""
        if not self._apart:
            return self.shared
        changed = {}
        for server, of in self._apart.items():
            listed = of()
            if listed is not None and listed is not self.theirs.get(server):
                changed[server] = listed
        if not changed:
            return self.shared
        key = (self._made, tuple(listed.key for listed in changed.values()))
        if (table := self._kept.get(key)) is None:
            table = Table(self.own, {**self.theirs, **changed}, self.prefixes, self.presented)
            if len(self._kept) >= MOST_APART:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = table
        return table

    def sweep(self) -> None:
        """Forget the tables of lists that nobody keeps any more."""
        self._kept = {key: table for key, table in self._kept.items() if all(part in self.lists for part in key[1])}
