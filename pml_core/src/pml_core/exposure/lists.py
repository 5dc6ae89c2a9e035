"""Run an exposure mode, apply the filters, render the list once and keep it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pml_core.mcp.addresses import definition_for, ui_owners
from pml_core.mcp.paging import page, servers_page
from pml_hookspecs import CatalogEntry, ExposureMode, RawObject, Selection, Session, ToolId, encode

if TYPE_CHECKING:
    from pml_core.catalog.live import LiveCatalog
    from pml_core.kernel.admission import Filters
    from pml_core.kernel.rehearsals import Rehearsals
    from pml_core.mcp.paging import ServerList
    from pml_hookspecs import Catalog

KEPT = 64
"""Rendered lists kept, one per view."""


class Listed(NamedTuple):
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
        filters: Filters,
        rehearsals: Rehearsals,
        log: Any,
        *,
        page_size: int = 0,
    ) -> None:
        """``page_size`` is the number of tools on a page, 0 for all on one."""
        self._mode, self._catalog, self._filters, self._log = mode, catalog, filters, log
        self._rehearsals = rehearsals
        self._page_size = page_size
        self._lists: dict[tuple[str, str, tuple[str, ...]], Listed] = {}
        self._rendering = asyncio.Lock()

    @property
    def whole_catalog(self) -> bool:
        """Whether the lists depend on what servers have."""
        return getattr(self._mode, "whole_catalog", True) is not False

    @property
    def lists_meta_tools(self) -> bool:
        """Whether those who get its lists find the meta-tools in them."""
        return bool(getattr(self._mode, "lists_meta_tools", True))

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

    async def listed(self, session: Session) -> Listed:
        """The list of a session's view, made once for each revision of the catalog."""
        locks = tuple(self._rehearsals.locks(session))
        key = (self._catalog.revision, session.key, locks)
        if (ready := self._lists.get(key)) is not None:
            return ready
        async with self._rendering:
            if (ready := self._lists.get(key)) is None:
                entries, shared = await self._selected(session)
                owners = ui_owners(self._catalog, lambda e: self._filters.refusing(e, session) is None)
                rendered = [self._render(e, session, owners) for e in entries]
                whole = _result(rendered, None)
                mark = hashlib.sha256(whole.raw).hexdigest()[:16]
                ready = Listed(
                    [e.id for e in entries],
                    rendered,
                    whole,
                    mark,
                    shared and self._filters.shared and "key" not in locks,
                )
                if len(self._lists) >= KEPT:
                    del self._lists[next(iter(self._lists))]
                self._lists[key] = ready
            return ready

    async def entries(self, session: Session) -> list[CatalogEntry]:
        """What the mode selects and the filters keep, in the mode's order."""
        return (await self._selected(session))[0]

    async def _selected(self, session: Session) -> tuple[list[CatalogEntry], bool]:
        try:
            selection = await self._mode.select(self._catalog, session)
            found, shared = self._known(selection.tools), selection.shared
        except Exception:
            self._log.exception("exposure mode failed; showing the meta-tools only", mode=session.mode)
            found, shared = self._known((await MetaOnlyView().select(self._catalog, session)).tools), False
        return [entry for entry in found if self._filters.refusing(entry, session) is None], shared

    def _known(self, selection: Sequence[ToolId]) -> list[CatalogEntry]:
        found: dict[ToolId, CatalogEntry] = {}
        for id in selection:
            entry = self._catalog.get(id)
            if entry is None or id in found:
                self._log.warning("the exposure mode selected a tool that does not exist, or one twice", tool=id)
            else:
                found[id] = entry
        return list(found.values())

    def _render(self, entry: CatalogEntry, session: Session, owners: Mapping[str, str]) -> bytes:
        """The definition as clients see it: our name, and an ``inputSchema`` that strict clients accept."""
        definition = self._rehearsals.listed(entry.definition, session) if entry.own else definition_for(entry, owners)
        shown = {**definition, "name": self._catalog.exposed_name(entry.id)}
        schema = shown.get("inputSchema")
        if not isinstance(schema, dict):
            shown["inputSchema"] = {"type": "object"}
        elif schema.get("type") != "object":
            shown["inputSchema"] = {"type": "object", **{k: v for k, v in schema.items() if k != "type"}}
        return encode(shown)


def _result(tools: Sequence[bytes], cursor: str | None) -> RawObject:
    following = b"" if cursor is None else b',"nextCursor":' + encode(cursor)
    return RawObject(b'{"tools":[' + b",".join(tools) + b"]" + following + b"}")
