"""Hook plugin ``cells``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pml_hookspecs import MetaTool, hookimpl

from .settings import Settings, sessions_of

if TYPE_CHECKING:
    from pml_hookspecs import Services


settings_type = Settings


@hookimpl
def pml_meta_tools(services: Services) -> Iterable[MetaTool]:
    """``cell_execute``, ``notebook_create``, ``cell_create``, ``cell_update``, ``notebook_get``."""
    from .tools import all_tools

    settings: Settings = services.settings or Settings()
    most_ms = settings.max_timeout_s * 1000
    return all_tools(sessions_of(services), most_ms=most_ms, log=services.log, listed=settings.listed)


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """``pml notebook``."""
    from .command import add

    add(subcommands)
