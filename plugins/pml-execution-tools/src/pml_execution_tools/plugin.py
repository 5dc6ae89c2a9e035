"""Hook plugin ``execution_tools``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pml_hookspecs import MetaTool, hookimpl

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services

settings_type = Settings


@hookimpl
def pml_meta_tools(services: Services) -> Iterable[MetaTool]:
    """The three tools of the history, and ``search_executions``."""
    from . import queries

    settings: Settings = services.settings or Settings()
    kinds = (queries.ListRecentExecutions, queries.GetExecutionResult, queries.GetAgentActivitySummary)
    asked: list[tuple[queries.Tool, bool]] = [(kind(services, settings), settings.listed) for kind in kinds]
    asked.append((queries.SearchExecutions(services, settings), settings.list_search))
    return [MetaTool(definition=tool.definition, call=tool, listed=listed, recorded=False) for tool, listed in asked]


@hookimpl
def pml_api_routes(services: Services) -> Iterable[Any]:
    """The history over HTTP; nothing where Starlette, which the HTTP transport brings, is not installed."""
    try:
        from .api import routes
    except ModuleNotFoundError as exc:
        if exc.name is None or exc.name.partition(".")[0] != "starlette":
            raise
        return ()
    return routes(services)


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """``pml executions``."""
    from .command import add

    add(subcommands)
