"""Names and patterns of tools that fit nothing, each with the nearest that there is."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from fnmatch import fnmatchcase
from itertools import islice
from typing import TYPE_CHECKING

from pml_hookspecs import GATEWAY_SERVER, split_tool_id
from pml_kit.offers import TOOL_NAMES, NamedTools, ToolNames
from pml_kit.shapes import Fault, ShapeError

from .naming import NO_TOOL, SEPARATOR

if TYPE_CHECKING:
    from pml_hookspecs import Catalog

NEAR = 0.5
MOST = 50
"""Lines that are told at a time."""
LONGEST_NAME = 200
WILD = "*?["


async def named_by_plugins(found: Iterable[tuple[str, ToolNames]], on_fault: Fault) -> list[NamedTools]:
    """What plugins offer under :data:`TOOL_NAMES` says now; ``on_fault`` is told of a plugin that fails to."""
    named: list[NamedTools] = []
    for plugin, names in found:
        try:
            given = await names()
            if wrong := [one for one in given if not isinstance(one, NamedTools)]:
                raise ShapeError(f"its names of tools have a {type(wrong[0]).__name__}; make it a NamedTools(...)")
        except Exception as exc:
            on_fault(plugin, TOOL_NAMES.name, exc)
        else:
            named += given
    return named


def unmatched(named: Iterable[NamedTools], catalog: Catalog, servers: Iterable[str], *, whole: bool) -> list[str]:
    """One sentence for each name that fits nothing, as far as that can be known.

    Args:
        named: What is to be there.
        catalog: What is known; of a server that it has no tool of, nothing is.
        servers: Those there are, disabled ones included.
        whole: Whether there are no more of them, such as plugins publish while a gateway runs.
    """
    known = _NameMatcher(catalog, servers, whole=whole)
    lines = (
        f"{one.where}: {name[:LONGEST_NAME]!r} {problem}"
        for one in named
        for name in one.names
        if (problem := known.problem(name[:LONGEST_NAME], ids_only=one.ids_only))
    )
    return list(islice(lines, MOST))


class _NameMatcher:
    """What names can fit."""

    def __init__(self, catalog: Catalog, servers: Iterable[str], *, whole: bool) -> None:
        self._catalog, self._whole = catalog, whole
        self._ids: list[str] = [entry.id for entry in catalog]
        self._spelt = [f"{entry.server}{SEPARATOR}{entry.name}" for entry in catalog]
        self._with_tools = {entry.server for entry in catalog}
        self._servers = {*servers, *self._with_tools, GATEWAY_SERVER}

    def problem(self, name: str, *, ids_only: bool) -> str:
        """What is wrong with a name; ``""`` for nothing, and where that cannot be known."""
        server, tool = split_tool_id(name)
        if not server and not ids_only and SEPARATOR in name:
            server, _, tool = name.partition(SEPARATOR)
        fitting = {one for one in self._servers if fnmatchcase(one, server)} if server else self._servers
        if server and not fitting:
            near = _near(name, self._ids) or _near(server, self._servers)
            return f"names no server that there is{near}" if near or self._whole else ""
        if self._fits(name, ids_only=ids_only) or tool.startswith(NO_TOOL):
            return ""
        if server and fitting - self._with_tools:  # it is not known what these have
            return ""
        near = _near(name, self._ids)
        return f"fits no tool{near}; tools are named server:tool" if near or self._ids else ""

    def _fits(self, name: str, *, ids_only: bool) -> bool:
        if not ids_only and (self._catalog.resolve(name) is not None or any(fnmatchcase(s, name) for s in self._spelt)):
            return True
        return any(fnmatchcase(id, name) for id in self._ids)


def _near(name: str, among: Iterable[str]) -> str:
    plain = name.replace("/", ":").replace(SEPARATOR, ":")
    found = difflib.get_close_matches("".join(c for c in plain if c not in WILD), among, n=1, cutoff=NEAR)
    return f"; did you mean {found[0]!r}?" if found else ""
