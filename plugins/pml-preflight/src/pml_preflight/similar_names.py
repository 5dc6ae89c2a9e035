"""Names of tools that look like another name."""

from __future__ import annotations

from difflib import SequenceMatcher, get_close_matches
from heapq import nlargest
from typing import TYPE_CHECKING

from pml_hookspecs import split_tool_id

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, Session, ToolId

SEPARATOR = "__"
CUTOFF = 0.7
LONGEST = 128
COMPARED = 40
"""Names that are compared letter by letter: those that share most with what is looked for."""


class SimilarNames:
    """Looks for names, in catalogs of ten thousand tools too."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._revision = ""
        self._grams: dict[ToolId, tuple[str, frozenset[str]]] = {}

    def names(self, name: str, session: Session, count: int = 3) -> list[str]:
        """Names, as clients write them, of tools that ``session`` may have, that look like ``name``; best first."""
        wanted = name.replace(":", SEPARATOR)[:LONGEST]
        tool = wanted.rpartition(SEPARATOR)[2].lower()
        looked_for, known = _grams(wanted), self._known()
        visible = [(id_, *known[id_]) for id_ in self._catalog.visible(session) if id_ in known]
        same = sorted(shown for id_, shown, _ in visible if split_tool_id(id_)[1].lower() == tool)
        shared = nlargest(COMPARED, ((len(looked_for & grams), shown) for _, shown, grams in visible))
        close = get_close_matches(wanted, [shown for _, shown in shared], n=count, cutoff=CUTOFF)
        # Of several that have the very name, those whose server looks alike come first.
        same.sort(key=lambda shown: -SequenceMatcher(None, wanted, shown).ratio() if len(same) <= COMPARED else 0)
        return list(dict.fromkeys([*same[:count], *close]))[:count]

    def has(self, server: str, session: Session) -> bool:
        """Whether ``session`` may have any tool of ``server``."""
        return any(id_.startswith(f"{server}:") for id_ in self._catalog.visible(session))

    def _known(self) -> dict[ToolId, tuple[str, frozenset[str]]]:
        if self._revision != self._catalog.revision:
            shown = ((entry.id, self._catalog.exposed_name(entry.id)) for entry in self._catalog)
            self._grams = {id_: (name, _grams(name)) for id_, name in shown}
            self._revision = self._catalog.revision
        return self._grams


def _grams(name: str) -> frozenset[str]:
    """Runs of three letters."""
    text = f" {name.lower()} "
    return frozenset(text[i : i + 3] for i in range(len(text) - 2))
