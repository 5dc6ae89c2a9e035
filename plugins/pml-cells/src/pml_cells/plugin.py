"""Hook plugin ``cells``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from pml_hookspecs import MetaTool, hookimpl

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Run, Services

    from .tools import Call


settings_type = Settings


@hookimpl
def pml_meta_tools(services: Services) -> Iterable[MetaTool]:
    """``cell_execute``, ``notebook_create``, ``cell_create``, ``cell_update``, ``notebook_get``."""
    from .definitions import CELL_CREATE, CELL_EXECUTE, CELL_UPDATE, NOTEBOOK_CREATE, NOTEBOOK_GET

    settings: Settings = services.settings or Settings()

    @cache
    def calls() -> Mapping[str, Call]:
        from .sessions import sessions_of
        from .tools import calls_of

        # Loaded with the first call: most gateways never have one.
        return calls_of(sessions_of(services), most_ms=settings.max_timeout_s * 1000, log=services.log)

    def tool(definition: Mapping[str, Any]) -> MetaTool:
        async def call(arguments: Mapping[str, Any], run: Run) -> Any:
            return await calls()[definition["name"]](arguments, run)

        return MetaTool(definition=definition, call=call, listed=settings.listed)

    return [tool(one) for one in (CELL_EXECUTE, NOTEBOOK_CREATE, CELL_CREATE, CELL_UPDATE, NOTEBOOK_GET)]


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """``pml notebook``."""
    from .command import add

    add(subcommands)
