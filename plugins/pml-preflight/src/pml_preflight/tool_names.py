"""Which tools code means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pml_hookspecs import CatalogEntry, ToolId
from pml_kit.offers.presentation import shown_name

from .code import Call

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, Session

NOT_A_NAME = re.compile(r"\W")


class ToolNames:
    """Finds tools by the names that code has for them; those may be spelt with identifiers."""

    def __init__(self, catalog: Catalog, session: Session) -> None:
        """Only what ``session`` may have is found."""
        self._catalog, self._session = catalog, session
        self._names: Mapping[str, Mapping[str, CatalogEntry]] | None = None

    def tool(self, call: Call) -> CatalogEntry | None:
        """None when there is none, or it is forbidden."""
        if not call.server:
            found = self._catalog.resolve(call.tool, self._session)
        else:
            found = self._catalog.get(ToolId(f"{call.server}:{call.tool}")) or self._by_identifier(call)
        return found if found is not None and self._catalog.allows(found, self._session) else None

    def _by_identifier(self, call: Call) -> CatalogEntry | None:
        if self._names is None:
            names: dict[str, dict[str, CatalogEntry]] = {}
            for entry in self._catalog:
                of_server = names.setdefault(NOT_A_NAME.sub("_", entry.server), {})
                for name in (entry.name, shown_name(entry)):
                    of_server[NOT_A_NAME.sub("_", name)] = entry
            self._names = names
        return self._names.get(call.server, {}).get(call.tool)
