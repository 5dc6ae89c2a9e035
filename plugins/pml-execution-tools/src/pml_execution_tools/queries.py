"""The tools."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from pml_hookspecs import InvalidArguments, MetaTool, UnauthenticatedError
from pml_kit.offers import ACCESS, required

from . import history
from .definitions import (
    GET_AGENT_ACTIVITY_SUMMARY,
    GET_EXECUTION_RESULT,
    LIST_RECENT_EXECUTIONS,
    LONGEST_TEXT,
    SEARCH_EXECUTIONS,
)
from .records import AGENTS

if TYPE_CHECKING:
    from pml_hookspecs import Run, Scope, Services, Session

    from .settings import Settings

Answer: TypeAlias = "Callable[[Services, Scope, Mapping[str, Any], Run], Awaitable[dict[str, Any]]]"


def tools(services: Services, settings: Settings) -> list[MetaTool]:
    """Those three that may be listed, and the search."""
    listed, found = settings.listed, settings.list_search
    made: list[tuple[dict[str, Any], Answer, bool, bool]] = [
        (LIST_RECENT_EXECUTIONS, _list, False, listed),
        (GET_EXECUTION_RESULT, _result, True, listed),
        (GET_AGENT_ACTIVITY_SUMMARY, partial(_summary, settings), False, listed),
        # What is found tells what stands in it, letter by letter.
        (SEARCH_EXECUTIONS, _search, True, found),
    ]
    return [
        MetaTool(definition=about, call=_tool(services, about, answer, results), listed=shown, recorded=False)
        for about, answer, results, shown in made
    ]


def _tool(services: Services, definition: Mapping[str, Any], answer: Answer, results: bool) -> Any:  # noqa: FBT001
    """Arguments are checked, and only what the caller may see is looked at.

    ``results`` says that it tells what executions put out, rather than that there were some.
    """

    async def call(arguments: Mapping[str, Any], run: Run) -> dict[str, Any]:
        from pml_kit.mcp.arguments import checked

        given = checked(definition, arguments, longest=LONGEST_TEXT)
        try:
            scope = await required(services, ACCESS).scope(run.session, results=results)
        except UnauthenticatedError as exc:
            raise InvalidArguments(str(exc)) from None
        try:
            return await answer(services, scope, given, run)
        except InvalidArguments as exc:
            raise InvalidArguments(f"{definition['name']}: {exc}") from None

    return call


async def _list(services: Services, scope: Scope, given: Mapping[str, Any], _run: Run) -> dict[str, Any]:
    return await history.listing(services.store.executions, scope, given)


async def _search(services: Services, scope: Scope, given: Mapping[str, Any], run: Run) -> dict[str, Any]:
    check_words(given["query"])
    return await _list(services, scope, given, run)


async def _result(services: Services, scope: Scope, given: Mapping[str, Any], _run: Run) -> dict[str, Any]:
    return await history.result(services.store.executions, scope, given)


async def _summary(
    settings: Settings, services: Services, scope: Scope, given: Mapping[str, Any], run: Run
) -> dict[str, Any]:  # fmt: skip
    dry_runs = settings.dry_runs_in_summaries
    read = await required(services, ACCESS).scope(run.session, results=True)
    summaries = history.Summaries(services.store.executions, scope, given, read=read, dry_runs=dry_runs)
    if name := given["agent_name"]:
        return await summaries.agent(name)
    return await summaries.fleet(_configured(services, scope, run.session))


def _configured(services: Services, scope: Scope, session: Session) -> Collection[str]:
    """Agents of the configuration whose executions the scope shows: of others not even the number is told."""
    if scope.principals is not None:
        return scope.agents
    catalog = services.catalog
    return {entry.name for entry in catalog if entry.server == AGENTS and catalog.allows(entry, session)}


def check_words(query: str) -> None:
    """See that there is something to search for.

    Raises:
        InvalidArguments: There is not.
    """
    if not re.search(r"[^\W_]", query):
        raise InvalidArguments("'query' must have at least one word; list_recent_executions lists without words.")
