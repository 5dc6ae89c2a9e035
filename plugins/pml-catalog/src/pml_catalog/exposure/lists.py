"""Run an exposure mode, apply the filters, render the list once and keep it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pml_catalog.addresses import definition_for, ui_owners
from pml_catalog.paging import page, servers_page
from pml_hookspecs import CatalogEntry, ExposureMode, RawObject, Selection, Session, ToolId, encode
from pml_kit.mcp.effects import ALWAYS_LOAD, searches_tools
from pml_kit.offers import Listing
from pml_kit.offers.presentation import is_hidden

if TYPE_CHECKING:
    from pml_catalog.live import LiveCatalog
    from pml_catalog.paging import ServerList
    from pml_catalog.ports import RehearsalLocks, SessionFilters
    from pml_hookspecs import Catalog

KEPT = 64
"""Rendered lists kept, one per view."""


class RenderedList(NamedTuple):
    """The list of one view."""

    ids: list[ToolId]
    tools: list[bytes]
    whole: RawObject
    """All of them, as the result of ``tools/list``."""
    mark: str
    """Changes with the list."""
    shared: bool
    """Whether every session gets this list."""

    def as_given(self, entries: Sequence[CatalogEntry]) -> list[bytes] | None:
        """The tools in the order in which a server gave ``entries``; None unless they are these and no others."""
        tools = dict(zip(self.ids, self.tools, strict=True))
        if len(tools) != len(entries) or any(entry.id not in tools for entry in entries):
            return None
        return [tools[entry.id] for entry in entries]


class MetaOnlyView:
    """What is shown when no mode can be used: the meta-tools. Implements :class:`pml_hookspecs.ExposureMode`."""

    whole_catalog = False

    async def select(self, catalog: Catalog, session: Session) -> Selection:
        """The meta-tools, in catalog order."""
        return Selection(tuple(entry.id for entry in catalog if entry.meta), shared=True)


class Exposure:
    """The list that each view gets of one mode."""

    def __init__(
        self,
        mode: ExposureMode,
        catalog: LiveCatalog,
        filters: SessionFilters,
        rehearsals: RehearsalLocks,
        log: Any,
        *,
        page_size: int = 0,
    ) -> None:
        """``page_size`` is the number of tools on a page, 0 for all on one."""
        self._mode, self._catalog, self._filters, self._log = mode, catalog, filters, log
        self._rehearsals = rehearsals
        self._page_size = page_size
        self._lists: dict[tuple[str, str, tuple[str, ...]], RenderedList] = {}
        self._rendering = asyncio.Lock()

    @property
    def whole_catalog(self) -> bool:
        """Whether the lists depend on what servers have."""
        return getattr(self._mode, "whole_catalog", True) is not False

    @property
    def lists_meta_tools(self) -> bool:
        """Whether those who get its lists find the meta-tools in them."""
        return bool(getattr(self._mode, "lists_meta_tools", True))

    def forget(self) -> None:
        """Ask the mode again, although nothing has changed that it is told of."""
        self._lists = {}

    async def tools(
        self, session: Session, cursor: Any = None, given: ServerList[CatalogEntry] | None = None
    ) -> RawObject:
        """The result of ``tools/list``: the same bytes for the same catalog and view.

        Args:
            cursor: That the client sent; None for the first page.
            given: What the session's only server lists, whose pages those of the same tools are.

        Raises:
            RpcError: The cursor is not one of this list's.
        """
        listed = await self.listed(session)
        if given is not None and given.ends and not self._page_size and (tools := listed.as_given(given)):
            return _result(*servers_page(tools, cursor, given.ends))
        if cursor is None and not 0 < self._page_size < len(listed.tools):
            return listed.whole
        shown, following = page(listed.tools, cursor, self._page_size, listed.mark)
        return _result(shown, following)

    async def listed(self, session: Session) -> RenderedList:
        """The list of a session's view, made once for each revision of the catalog."""
        locks = tuple(self._rehearsals.locks(session))
        left_out, loaded = self._catalog.left_out(session), searches_tools(session)
        key = (self._catalog.revision, session.key, (*locks, *sorted(left_out), str(loaded)))
        if (ready := self._lists.get(key)) is not None:
            return ready
        async with self._rendering:
            lists = self._lists  # what is forgotten meanwhile is not kept
            if (ready := lists.get(key)) is None:
                entries, shared = await self._selected(session)
                owners = ui_owners(self._catalog, lambda e: self._filters.refusing(e, session) is None)
                rendered = [self._render(e, session, owners, loaded=loaded) for e in entries]
                whole, marked = _result(rendered, None), loaded and any(e.meta for e in entries)
                mark = hashlib.sha256(whole.raw).hexdigest()[:16]
                ready = RenderedList(
                    [e.id for e in entries],
                    rendered,
                    whole,
                    mark,
                    shared and self._filters.shared and "key" not in locks and not marked,
                )
                if len(lists) >= KEPT:
                    del lists[next(iter(lists))]
                lists[key] = ready
            return ready

    async def entries(self, session: Session) -> list[CatalogEntry]:
        """What the mode selects and the filters keep, in the mode's order."""
        return (await self._selected(session))[0]

    async def explained(self, entry: CatalogEntry, session: Session) -> Listing:
        """Whether the list of a session's view has ``entry``, and why."""
        if refused := self._filters.why(entry, session):
            return Listing(listed=False, why=refused)
        if is_hidden(entry):
            return Listing(listed=False, why=f'[tools."{entry.id}"] hides it from lists and searches; it can be called')
        selection, found, _ = await self._selection(session)
        if entry not in found:
            how = "it can be called" if entry.own else "a search finds it, and it can be called"
            return Listing(listed=False, why=f"the mode {session.mode} does not pick it; {how}")
        if entry.id in self._catalog.left_out(session):
            return Listing(listed=False, why="it is listed to other clients than these")
        return Listing(listed=True, why=selection.why.get(entry.id, "") or f"the mode {session.mode} picks it")

    async def _selection(self, session: Session) -> tuple[Selection, list[CatalogEntry], bool]:
        """What the mode picks, what there is of that, and whether it is the same for everybody."""
        try:
            selection = await self._mode.select(self._catalog, session)
            return selection, self._known(selection.tools), selection.shared
        except Exception:
            self._log.exception("exposure mode failed; showing the meta-tools only", mode=session.mode)
            selection = await MetaOnlyView().select(self._catalog, session)
            return selection, self._known(selection.tools), False

    async def _selected(self, session: Session) -> tuple[list[CatalogEntry], bool]:
        _, found, shared = await self._selection(session)
        left_out = self._catalog.left_out(session)
        alike = shared and not any(entry.id in self._catalog.conditions for entry in found)
        listed = (e for e in found if e.id not in left_out and not is_hidden(e))
        return [e for e in listed if self._filters.refusing(e, session) is None], alike

    def _known(self, selection: Sequence[ToolId]) -> list[CatalogEntry]:
        found: dict[ToolId, CatalogEntry] = {}
        for id in selection:
            entry = self._catalog.get(id)
            if entry is None or id in found:
                self._log.warning("the exposure mode selected a tool that does not exist, or one twice", tool=id)
            else:
                found[id] = entry
        return list(found.values())

    def _render(self, entry: CatalogEntry, session: Session, owners: Mapping[str, str], *, loaded: bool) -> bytes:
        """The definition as clients see it: our name, and an ``inputSchema`` that strict clients accept.

        ``loaded`` marks meta-tools for a client that hides tools behind a search of its own.
        """
        definition = self._rehearsals.listed(entry.definition, session) if entry.own else definition_for(entry, owners)
        shown = {**definition, "name": self._catalog.exposed_name(entry.id)}
        if loaded and entry.meta:
            shown["_meta"] = {ALWAYS_LOAD: True, **(definition.get("_meta") or {})}
        schema = shown.get("inputSchema")
        if not isinstance(schema, dict):
            shown["inputSchema"] = {"type": "object"}
        elif schema.get("type") != "object":
            shown["inputSchema"] = {"type": "object", **{k: v for k, v in schema.items() if k != "type"}}
        return encode(shown)


def _result(tools: Sequence[bytes], cursor: str | None) -> RawObject:
    following = b"" if cursor is None else b',"nextCursor":' + encode(cursor)
    return RawObject(b'{"tools":[' + b",".join(tools) + b"]" + following + b"}")
