"""Entries of servers' tools as they are shown, made once for each definition."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CatalogEntry, ToolId, encode
from pml_kit.errors import OperatorError
from pml_kit.offers.presentation import presented

if TYPE_CHECKING:
    from pml_kit.offers import Presentation

MOST_KEPT = 4096
"""Entries; then all are made anew."""


class PresentedTools:
    """Puts what is shown in the place of what servers list."""

    def __init__(self, presentation: Presentation, log: Any) -> None:
        self._presentation, self._log = presentation, log
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

    def _of(self, entry: CatalogEntry) -> CatalogEntry:
        try:
            shown = self._presentation(entry)
            if shown is None:
                return entry
            # By both: what was agreed to holds neither for another tool nor for another look of it.
            canonical = json.dumps([shown.definition, shown.hidden], sort_keys=True, default=dict).encode()
            digest = hashlib.sha256(entry.digest.encode() + canonical).hexdigest()
            return presented(entry, shown, digest, len(encode(shown.definition)) // 4)
        except Exception:
            self._log.exception("a tool is shown as its server has it: its presentation failed", tool=entry.id)
            return entry


def check_names(names: Mapping[ToolId, str], own: Mapping[str, CatalogEntry]) -> None:
    """See that no tool is to be called as one of the gateway's own, which are ``own`` by name and alias.

    Raises:
        OperatorError: One is.
    """
    for id, name in names.items():
        if (taken := own.get(name)) is not None:
            message = f"tool {id!r} is to be called {name!r}, as the gateway's own tool {taken.id!r} is"
            raise OperatorError(message, "Give it another name.")
