"""Tools that stand in a text: what code may call that nobody has read or run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from pml_hookspecs import CatalogEntry
from pml_kit.offers.presentation import shown_name

NOT_IN_IDENTIFIERS = re.compile(r"\W")
"""What code writes as an underscore in the name of a tool."""


def named_in(text: str, entries: Iterable[CatalogEntry]) -> Iterator[CatalogEntry]:
    """Servers' tools whose server and name both stand in ``text``, as they are or as identifiers.

    Wherever that is, in comments too, and never what is put together from parts: what is found may be called, and
    what is not may be called all the same.
    """
    servers: dict[str, bool] = {}
    for entry in entries:
        if entry.own:
            continue
        if entry.server not in servers:
            servers[entry.server] = _stands_in(text, entry.server)
        if servers[entry.server] and (_stands_in(text, entry.name) or _stands_in(text, shown_name(entry))):
            yield entry


def _stands_in(text: str, name: str) -> bool:
    return any(one in text and _word(one).search(text) for one in {name, NOT_IN_IDENTIFIERS.sub("_", name)})


@lru_cache(maxsize=1024)
def _word(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
