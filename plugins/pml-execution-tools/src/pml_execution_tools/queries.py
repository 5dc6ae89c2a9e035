"""The tools."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments, UnauthenticatedError

from . import history
from .arguments import checked
from .definitions import (
    GET_AGENT_ACTIVITY_SUMMARY,
    GET_EXECUTION_RESULT,
    LIST_RECENT_EXECUTIONS,
    SEARCH_EXECUTIONS,
)
from .records import AGENTS

if TYPE_CHECKING:
    from pml_hookspecs import Executions, Run, Scope, Services, Session

    from .settings import Settings


class Tool:
    """What the tools share: arguments are checked, and only what the caller may see is looked at."""

    definition: Mapping[str, Any]
    results = False
    """Whether it tells what executions put out, rather than that there were some."""

    def __init__(self, services: Services, settings: Settings) -> None:
        self._services, self._settings = services, settings

    async def __call__(self, arguments: Mapping[str, Any], run: Run) -> dict[str, Any]:
        """Answer a call; in the shape that the output schema of :attr:`definition` says.

        Raises:
            InvalidArguments: An argument is not what the definition says, the caller has no such execution, or has
                not said who it is.
        """
        given = checked(self.definition, arguments)
        try:
            scope = await self._services.scope(run.session, results=self.results)
        except UnauthenticatedError as exc:
            raise InvalidArguments(str(exc)) from None
        try:
            return await self._answer(given, scope, run)
        except InvalidArguments as exc:
            raise InvalidArguments(f"{self.definition['name']}: {exc}") from None

    async def _answer(self, given: Mapping[str, Any], scope: Scope, run: Run) -> dict[str, Any]:
        raise NotImplementedError

    @property
    def _executions(self) -> Executions:
        return self._services.store.executions


class ListRecentExecutions(Tool):
    """``list_recent_executions``."""

    definition = LIST_RECENT_EXECUTIONS

    async def _answer(self, given: Mapping[str, Any], scope: Scope, run: Run) -> dict[str, Any]:
        return await history.listing(self._executions, scope, given)


class SearchExecutions(Tool):
    """``search_executions``."""

    definition = SEARCH_EXECUTIONS
    results = True  # what is found tells what stands in it, letter by letter

    async def _answer(self, given: Mapping[str, Any], scope: Scope, run: Run) -> dict[str, Any]:
        check_words(given["query"])
        return await history.listing(self._executions, scope, given)


class GetExecutionResult(Tool):
    """``get_execution_result``."""

    definition = GET_EXECUTION_RESULT
    results = True

    async def _answer(self, given: Mapping[str, Any], scope: Scope, run: Run) -> dict[str, Any]:
        return await history.result(self._executions, scope, given)


class GetAgentActivitySummary(Tool):
    """``get_agent_activity_summary``."""

    definition = GET_AGENT_ACTIVITY_SUMMARY

    async def _answer(self, given: Mapping[str, Any], scope: Scope, run: Run) -> dict[str, Any]:
        dry_runs = self._settings.dry_runs_in_summaries
        read = await self._services.scope(run.session, results=True)
        summaries = history.Summaries(self._executions, scope, given, read=read, dry_runs=dry_runs)
        if name := given["agent_name"]:
            return await summaries.agent(name)
        return await summaries.fleet(self._configured(scope, run.session))

    def _configured(self, scope: Scope, session: Session) -> Collection[str]:
        """Agents of the configuration whose executions the scope shows: of others not even the number is told."""
        if scope.principals is not None:
            return scope.agents
        catalog = self._services.catalog
        return {entry.name for entry in catalog if entry.server == AGENTS and catalog.allows(entry, session)}


def check_words(query: str) -> None:
    """See that there is something to search for.

    Raises:
        InvalidArguments: There is not.
    """
    if not re.search(r"[^\W_]", query):
        raise InvalidArguments("'query' must have at least one word; list_recent_executions lists without words.")
