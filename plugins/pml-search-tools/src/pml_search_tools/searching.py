"""``search_tools``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import GATEWAY_SERVER, InvalidArguments

from .arguments import checked
from .definitions import SEARCH_TOOLS
from .describe import first_sentence, signature

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, CatalogEntry, Run, Services, ToolId

WORD = re.compile(r"[^\W_]+")


class SearchTools:
    """Answers calls of ``search_tools``."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, arguments: Mapping[str, Any], run: Run) -> dict[str, Any]:
        """Find tools, best first.

        Returns:
            ``tools``; ``total_tools``, how many were searched; ``unavailable``, the servers that are not up, if there
            are any; ``hint``, what to do when nothing was found.

        Raises:
            InvalidArguments: The query is empty, or an argument is not what the definition says.
        """
        given = checked(SEARCH_TOOLS, arguments)
        query, server, catalog = given["query"].strip(), given["server"], self._services.catalog
        if not query:
            raise InvalidArguments(
                "search_tools: 'query' is empty; say what the tool should do, such as \"read a file\"."
            )
        if server is not None:
            _check_server(server, catalog)
        allowed = {entry.id for entry in catalog if catalog.allows(entry, run.session)}
        found = await self._ranked(query, server, given["limit"], allowed)
        answer: dict[str, Any] = {
            "tools": [_shown(entry, score, catalog, full=given["detail"] == "full") for entry, score in found],
            "total_tools": sum(not e.own and server in (None, e.server) and e.id in allowed for e in catalog),
        }
        if down := [s for s in catalog.servers() if s.state != "up" and server in (None, s.name)]:
            answer["unavailable"] = [{"server": s.name, "reason": s.reason or s.state} for s in down]
        if not found:
            answer["hint"] = _hint(server, some_missing=bool(down))
        return answer

    async def _ranked(
        self, query: str, server: str | None, limit: int, allowed: set[ToolId]
    ) -> list[tuple[CatalogEntry, float]]:
        """The best ``limit`` of what may be shown; what a filter drops leaves no trace."""
        catalog = self._services.catalog
        scores: dict[ToolId, float] = dict.fromkeys((entry.id for entry in _named(query, catalog)), 1.0)
        candidates = list(_own(query, catalog))
        # The index knows neither servers nor filters: with either, everything is ranked and then sorted out.
        simple = server is None and len(allowed) == len(catalog)
        hits = await catalog.search(query, limit=limit if simple else max(1, len(catalog)))
        candidates += [(hit.id, hit.score) for hit in hits]
        for tool, score in sorted(candidates, key=lambda c: (-c[1], c[0])):
            scores.setdefault(tool, score)
        found = ((catalog.get(tool), score) for tool, score in scores.items())
        kept = [(e, score) for e, score in found if e is not None and e.id in allowed and server in (None, e.server)]
        return kept[:limit]


def _named(query: str, catalog: Catalog) -> Iterator[CatalogEntry]:
    """Tools whose name, in any spelling, is the query."""
    exact = catalog.resolve(query)
    if exact is not None and not exact.meta:
        yield exact
    yield from (entry for entry in catalog if not entry.own and entry.name == query)


def _own(query: str, catalog: Catalog) -> Iterator[tuple[ToolId, float]]:
    """Unlisted tools of the gateway that have every word of the query, which the index does not hold.

    The score grows with the share of the name's words that the query has, so that one common word finds little.
    """
    words = _words(query)
    for entry in catalog:
        if entry.own and not entry.meta:
            name = _words(entry.name)
            if words and words <= name | _words(entry.description):
                yield entry.id, 0.95 * math.sqrt(len(words & name) / len(name))


def _words(text: str) -> set[str]:
    return {word.removesuffix("s") for word in WORD.findall(text.lower())}


def _shown(entry: CatalogEntry, score: float, catalog: Catalog, *, full: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": catalog.exposed_name(entry.id), "score": round(score, 2)}
    if not full:
        schema = entry.definition.get("inputSchema")
        return {**shown, "description": first_sentence(entry.description), "parameters": signature(schema)}
    shown["description"] = entry.description
    members = ("inputSchema", "outputSchema", "annotations")
    return shown | {member: entry.definition[member] for member in members if entry.definition.get(member)}


def _check_server(server: str, catalog: Catalog) -> None:
    import difflib

    known = sorted({s.name for s in catalog.servers()}.union(entry.server for entry in catalog) - {GATEWAY_SERVER})
    if server not in known:
        near = difflib.get_close_matches(server, known, n=1)
        remedy = f"did you mean {near[0]!r}?" if near else f"leave it out, or use one of: {', '.join(known) or 'none'}."
        raise InvalidArguments(f"search_tools: there is no server {server!r}; {remedy}")


def _hint(server: str | None, *, some_missing: bool) -> str:
    words = "Nothing found. Use other or fewer words"
    where = f", or search all servers by leaving out 'server' ({server!r})" if server else ""
    missing = " Tools of the unavailable servers may be missing." if some_missing else ""
    return f"{words}{where}.{missing}"
