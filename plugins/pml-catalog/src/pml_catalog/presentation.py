"""Entries of servers' tools as they are shown, made once for each definition."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CatalogEntry, ToolId, encode
from pml_kit.errors import OperatorError
from pml_kit.offers.presentation import PresentedTool, WordFilter, presented

if TYPE_CHECKING:
    from pml_kit.offers import DefinitionFilter, Presentation

MOST_KEPT = 4096
"""Entries; then all are made anew."""


class PresentedTools:
    """Puts what is shown in the place of what servers list."""

    def __init__(
        self, presentation: Presentation | None, log: Any, filters: Sequence[tuple[str, DefinitionFilter]] = ()
    ) -> None:
        """``filters`` are with their plugins; ``presentation`` is asked about what they leave."""
        self._presentation, self._filters, self._log = presentation, filters, log
        self._made: dict[tuple[ToolId, str], CatalogEntry] = {}

    def of(self, entries: Iterable[CatalogEntry]) -> Iterator[CatalogEntry]:
        """``entries`` as they are shown, in their order."""
        for entry in entries:
            key = (entry.id, entry.digest)
            if (made := self._made.get(key)) is None:
                if len(self._made) >= MOST_KEPT:
                    self._made.clear()
                made = self._of(entry)
                if made is not entry:
                    self._made[key] = made
            yield made

    def said(self, id: str, server: str, item: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """What the filters leave of what a server says besides tools; None where one withholds it."""
        for plugin, put in self._filters:
            if not isinstance(put, WordFilter):
                continue
            try:
                left = put.said(id, server, item)
                encode(left or {})
            except Exception:
                self._log.exception("words of a server are taken as they are: a filter failed", plugin=plugin, of=id)
                continue
            if left is None:
                return None
            item = left
        return item

    def _of(self, entry: CatalogEntry) -> CatalogEntry:
        left = self._filtered(entry)
        try:
            shown = None if self._presentation is None else self._presentation(left)
            if shown is not None:
                return _shown(entry, shown)
        except Exception:
            self._log.exception("a tool is shown as its server has it: its presentation failed", tool=entry.id)
        return entry if left is entry else _shown(entry, PresentedTool(definition=left.definition))

    def _filtered(self, entry: CatalogEntry) -> CatalogEntry:
        """``entry`` with what the filters put in place of its definition; itself as a rule."""
        left = entry
        for plugin, put in self._filters:
            try:
                definition = put(left)
                encode(definition or {})
            except Exception:
                self._log.exception("a definition is taken as it is: its filter failed", plugin=plugin, tool=entry.id)
                continue
            if definition is not None:
                left = replace(left, definition={**definition, "name": entry.definition["name"]})
        return left


def _shown(entry: CatalogEntry, shown: PresentedTool) -> CatalogEntry:
    # By both: what was agreed to holds neither for another tool nor for another look of it.
    canonical = json.dumps([shown.definition, shown.hidden], sort_keys=True, default=dict).encode()
    digest = hashlib.sha256(entry.digest.encode() + canonical).hexdigest()
    return presented(entry, shown, digest, len(encode(shown.definition)) // 4)


def check_names(names: Mapping[ToolId, str], own: Mapping[str, CatalogEntry]) -> None:
    """See that no tool is to be called as one of the gateway's own, which are ``own`` by name and alias.

    Raises:
        OperatorError: One is.
    """
    for id, name in names.items():
        if (taken := own.get(name)) is not None:
            message = f"tool {id!r} is to be called {name!r}, as the gateway's own tool {taken.id!r} is"
            raise OperatorError(message, "Give it another name.")
