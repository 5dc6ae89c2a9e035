"""``search_tools``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments, RawObject
from pml_kit.mcp.effects import effects_of_tool, only_reads
from pml_kit.offers import note_of

from .arguments import checked
from .catalog_views import CatalogViews, View, telling, words_of
from .definitions import CALL_BY_EFFECTS, READ_ONLY, SEARCH_TOOLS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pml_hookspecs import Catalog, CatalogEntry, Match, Run, ServerStatus, Services, Session, ToolId

SHOWN_IN_FULL = ("inputSchema", "outputSchema", "annotations")
ALIKE = 0.6
"""Least share of words that a query has in common with a question that a tool of the gateway's own answers."""
FITTING = 0.5
"""Least relevance of a tool that is shown: a query that none fits finds none, and no list is filled up with others."""
NEAR, MOST_NEAR = 0.1, 3
"""Least relevance of the tools that are named where none fits, and how many are."""
MOST_DESCRIBED, LONGEST_DESCRIPTION = 3, 300
"""Servers of which an answer tells what they say of themselves, and how much of that [characters]."""
Found = tuple["CatalogEntry", float]


class SearchTools:
    """Answers calls of ``search_tools``."""

    def __init__(self, services: Services, by_effects: Callable[[Session], bool] = lambda _session: False) -> None:
        """``by_effects`` says whose client calls each tool found by the one for its effects."""
        self._services, self._catalog, self._by_effects = services, services.catalog, by_effects
        self._known = CatalogViews(self._catalog)

    async def __call__(self, arguments: Mapping[str, Any], run: Run) -> RawObject:
        """Find tools, best first. What the caller may not have leaves no trace in any part of the answer.

        Returns:
            ``tools``, each with ``call``, the tool that calls it, where that depends on its effects; ``total_tools``,
            how many were searched; ``servers``, what those of the first tools say of their use, if they say anything;
            ``unavailable``, the servers that cannot be used now, if there are any; ``hint``, what to do when nothing
            was found.

        Raises:
            InvalidArguments: The query is empty, or an argument is not what the definition says.
        """
        given = checked(SEARCH_TOOLS, arguments)
        query, server, catalog = given["query"].strip(), given["server"], self._catalog
        if not query:
            raise InvalidArguments(
                "search_tools: 'query' is empty; say what the tool should do, such as \"read a file\"."
            )
        if server is not None:
            _check_server(server, catalog, self._known.view(run.session))
        reading = given["effects"] == READ_ONLY

        def keep(entry: CatalogEntry) -> bool:
            return server in (None, entry.server) and (not reading or only_reads(entry))

        limited = server is not None or reading
        hits = await catalog.search(query, limit=given["limit"], session=run.session, keep=keep if limited else None)
        # The catalog may have changed meanwhile; from here on it does not.
        view = self._known.view(run.session)
        found = [(e, score) for e, score in _ranked(query, hits, catalog, view) if not limited or keep(e)]
        # Whoever names a server wants to know what it has.
        near = [catalog.exposed_name(entry.id) for entry, score in found if score >= NEAR][:MOST_NEAR]
        found = [one for one in found if server or one[1] >= FITTING][: given["limit"]]
        down = [
            s for s in catalog.servers(run.session) if _missing(s) and server in (None, s.name) and view.knows(s.name)
        ]
        answer = {
            "tools": self._shown(found, run.session, full=given["detail"] == "full"),
            "total_tools": view.total(server, reading=reading),
        }
        if found and (said := self._said(found, run)):
            answer["servers"] = said
        if down:
            answer["unavailable"] = [{"server": s.name, "reason": s.reason or s.state} for s in down]
        if not found:
            answer["hint"] = _hint(near, server, reading=reading, some_missing=bool(down))
        # Its text is for a model: as it stands, without the white space that another mapping would get.
        return RawObject.of(answer)

    def _said(self, found: Sequence[Found], run: Run) -> dict[str, str]:
        """What the servers of the tools found say of their use."""
        names = list(dict.fromkeys(entry.server for entry, _ in found))[:MOST_DESCRIBED]
        said = {status.name: status.description for status in self._catalog.servers(run.session)}
        return {name: said[name][:LONGEST_DESCRIPTION] for name in names if said.get(name)}

    def _shown(self, found: Sequence[Found], session: Session, *, full: bool) -> list[dict[str, Any]]:
        classed = self._by_effects(session)
        tools = []
        for entry, score in found:
            shown = self._described(entry, score, full=full, classed=classed)
            # Apart from what the tool says of itself: it was observed, and is promised by nobody.
            if (note := note_of(self._services, entry, session)) and (seen := note.members(example=full)):
                shown["seen"] = seen
            tools.append(shown)
        return tools

    def _described(self, entry: CatalogEntry, score: float, *, full: bool, classed: bool) -> dict[str, Any]:
        shown: dict[str, Any] = {"name": self._catalog.exposed_name(entry.id), "score": round(score, 2)}
        if classed:
            shown["call"] = CALL_BY_EFFECTS[effects_of_tool(entry.definition)]["name"]
        if not full:
            shown["description"], shown["parameters"] = self._known.described(entry)
            return shown
        shown["description"] = entry.description
        return shown | {member: value for member in SHOWN_IN_FULL if (value := entry.definition.get(member))}


def _ranked(query: str, hits: Sequence[Match], catalog: Catalog, view: View) -> Iterator[Found]:
    """What was asked for by name, and then all else by its score; each once."""
    seen: set[ToolId] = set()
    for entry in view.named(query, catalog):
        if entry.id not in seen:
            seen.add(entry.id)
            yield entry, 1.0
    theirs = ((catalog.get(hit.id), hit.score) for hit in hits)
    candidates = [*((e, score) for e, score in theirs if e is not None and e in view), *_own(query, view)]
    # What has the same score stays in the order of the index, which knows more than it rounds to.
    candidates.sort(key=lambda found: -found[1])
    yield from (found for found in candidates if found[0].id not in seen)


def _own(query: str, view: View) -> Iterator[Found]:
    """Unlisted tools of the gateway, which the index does not hold: by every word of the query, or by what people ask.

    The score grows with the share of the name's words that the query has, so that one common word finds little; a
    question that the tool answers counts by the share of words that it has in common with the query.
    """
    words = words_of(query)
    asked = telling(words)
    for tool in view.own:
        all_there = bool(words) and words <= tool.words
        score = 0.95 * math.sqrt(len(words & tool.name) / max(1, len(tool.name))) if all_there else 0.0
        alike = max((len(asked & one) / len(asked | one) for one in tool.questions if one), default=0.0)
        if alike >= ALIKE:
            yield tool.entry, max(score, 0.95 * alike)
        elif all_there:
            yield tool.entry, score


def _missing(server: ServerStatus) -> bool:
    """Whether tools of it cannot be used, or are not known; a call of a known one waits for a server that starts."""
    return server.state != "up" and not (server.state in ("idle", "starting") and server.tools)


def _check_server(server: str, catalog: Catalog, view: View) -> None:
    known = view.servers(status.name for status in catalog.servers())
    if server not in known:
        import difflib

        near = difflib.get_close_matches(server, known, n=1)
        remedy = f"did you mean {near[0]!r}?" if near else f"leave it out, or use one of: {', '.join(known) or 'none'}."
        raise InvalidArguments(f"search_tools: there is no server {server!r}; {remedy}")


def _hint(near: Sequence[str], server: str | None, *, reading: bool, some_missing: bool) -> str:
    filters = [f"'server' ({server!r})"] if server else []
    filters += [f"'effects' ({READ_ONLY!r})"] if reading else []
    where = f", or search all tools by leaving out {' and '.join(filters)}" if filters else ""
    missing = " Tools of the unavailable servers may be missing." if some_missing else ""
    doubtful = f" Near it, though they may do something else: {', '.join(near)}." if near else ""
    return f"No tool fits.{doubtful} Use other or fewer words{where}.{missing}"
