"""Hook plugin ``execution_tools``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pml_hookspecs import MetaTool, SharedRoute, hookimpl
from pml_kit.errors import is_missing

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services

settings_type = Settings


@hookimpl
def pml_meta_tools(services: Services) -> Iterable[MetaTool]:
    """The three tools of the history, and ``search_executions``."""
    from .queries import tools

    return tools(services, services.settings or Settings())


@hookimpl
def pml_routes(services: Services) -> Iterable[Any]:
    """The history under ``/api/``; nothing where Starlette, which the HTTP transport brings, is not installed."""
    try:
        from .api import routes
    except ModuleNotFoundError as exc:
        if not is_missing(exc, "starlette"):
            raise
        return ()
    return map(SharedRoute, routes(services))


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """``pml executions``."""
    from .command import add

    add(subcommands)
