"""Which tools a list of names and patterns means."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, CatalogEntry, ToolId


class Blacklist:
    """Names of tools, in any spelling, and patterns of :mod:`fnmatch` over ``server:tool`` and ``server__tool``."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        forms = (form for name in names for form in (re.escape(name), fnmatch.translate(name)))
        self._pattern = re.compile("|".join(forms) or r"(?!)")
        self._found: tuple[str, frozenset[ToolId]] = ("", frozenset())

    def __contains__(self, entry: CatalogEntry) -> bool:
        """Whether a name or pattern spells ``entry``. Needs no catalog, so it holds for any entry."""
        spellings = (entry.id, f"{entry.server}__{entry.name}")
        return any(self._pattern.fullmatch(spelling) for spelling in spellings)

    def ids(self, catalog: Catalog) -> frozenset[ToolId]:
        """All tools of ``catalog`` that are meant, also by names that only it knows: aliases, and shortened ones."""
        if self._found[0] != (revision := catalog.revision):
            resolved = (catalog.resolve(name) for name in self._names)
            ids = {entry.id for entry in resolved if entry is not None}
            self._found = (revision, frozenset(ids.union(entry.id for entry in catalog if entry in self)))
        return self._found[1]
