"""Tokens of tool lists: what PML put into contexts, and what servers connected directly would have."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from pml_hookspecs import GATEWAY_SERVER, ExecutionQuery, replace
from pml_kit.mcp.tokens import estimate, text_of_result, text_of_tool
from pml_kit.offers import VIEWS, required
from pml_kit.pages import every_execution

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, Executions, Services, Session

SEARCH = f"{GATEWAY_SERVER}:search_tools"
MOST_SEARCHES = 50
"""Newest searches whose answers are counted."""


class TokenSizes:
    """Tokens of definitions, each counted once for as long as it is in the catalog."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int] = {}

    async def of(self, services: Services, entries: Sequence[CatalogEntry]) -> int:
        """Of all of them together. Counted in a thread: a thousand take a good part of a second."""
        names = services.catalog.exposed_name
        wanted = {(entry.digest, names(entry.id)): entry for entry in entries}
        new = {key: entry for key, entry in wanted.items() if key not in self._known}
        if new:
            self._known |= await asyncio.to_thread(_counted, new.items())
        return sum(self._known[key] for key in wanted)

    def keep(self, services: Services) -> None:
        """Forget what the catalog does not have any more."""
        digests = {entry.digest for entry in services.catalog}
        self._known = {key: tokens for key, tokens in self._known.items() if key[0] in digests}


def _counted(entries: Iterable[tuple[tuple[str, str], CatalogEntry]]) -> dict[tuple[str, str], int]:
    return {key: estimate(text_of_tool(entry.definition, key[1])) for key, entry in entries}


async def tokens_by_day(
    services: Services, session: Session, query: ExecutionQuery, sizes: TokenSizes
) -> dict[str, Any]:  # fmt: skip
    """What lists take, and per day the least that was saved.

    What lists took in the past is not kept, and neither is how many conversations there were: those of now count, and
    one conversation of each client on each day on which it did something. Results are on neither side.

    Returns:
        ``direct`` and ``lists`` (one for each endpoint): ``tools`` and ``tokens``; ``search_tokens``, the mean of an
        answer of the search; ``days``, the last first: ``day`` (UTC), ``clients``, ``searches``, ``direct``, ``put``
        and ``saved`` [tokens].
    """
    catalog, views = services.catalog, required(services, VIEWS)
    theirs = [entry for entry in catalog if not entry.own and catalog.allows(entry, session)]
    sizes.keep(services)
    direct: dict[str, int] = {"tools": len(theirs), "tokens": await sizes.of(services, theirs)}
    lists: list[dict[str, Any]] = []
    for view in views.endpoints():
        listed = await views.listed(view.mode, intent=view.intent)
        shown = [entry for entry in listed if catalog.allows(entry, session)]
        about = {"endpoint": view.endpoint, "mode": view.mode, "tools": len(shown)}
        lists.append({**about, "tokens": await sizes.of(services, shown)})
    executions = services.store.executions
    search_tokens = await _search_tokens(executions, query)
    searches = {one.group: one.executions for one in await executions.totals(replace(query, target=SEARCH), "day")}
    clients = await _clients(executions, query)
    # Of several lists the largest: no more is said to be saved than was.
    put = max((one["tokens"] for one in lists), default=0)
    days = [
        _day(day, count, searches.get(day, 0), direct["tokens"], put, search_tokens)
        for day, count in sorted(clients.items(), reverse=True)
    ]
    return {"direct": direct, "lists": lists, "search_tokens": search_tokens, "days": days}


def _day(day: str, clients: int, searches: int, direct: int, put: int, search_tokens: int) -> dict[str, Any]:
    told = {"direct": clients * direct, "put": clients * put + searches * search_tokens}
    return {"day": day, "clients": clients, "searches": searches, **told, "saved": told["direct"] - told["put"]}


async def _clients(executions: Executions, query: ExecutionQuery) -> dict[str, int]:
    """How many agents and clients asked for something over MCP, by the day."""
    asked = replace(query, trigger="mcp", top_level=True)
    found = {}
    for total in await executions.totals(asked, "day"):
        begins = datetime.combine(date.fromisoformat(total.group), time(), UTC)
        of_day = replace(asked, since=begins, until=begins + timedelta(days=1))
        found[total.group] = len(await executions.totals(of_day, "agent"))
    return found


async def _search_tokens(executions: Executions, query: ExecutionQuery) -> int:
    searches = every_execution(executions, replace(query, target=SEARCH), most=MOST_SEARCHES)
    tokens = [estimate(text_of_result(one.response)) async for one in searches if one.response is not None]
    return round(sum(tokens) / len(tokens)) if tokens else 0
