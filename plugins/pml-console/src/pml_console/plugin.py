"""Hook plugin ``console``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pml_hookspecs import hookimpl
from pml_kit.offers import OpenRoute

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services

settings_type = Settings


@hookimpl
def pml_routes(services: Services) -> Iterable[Any]:
    """The pages, under ``/console/``. Nobody sees one without having logged in there."""
    from .site import routes

    return map(OpenRoute, routes(services, services.settings or Settings()))


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """``pml console`` and ``pml report``."""
    from . import command, report_command

    command.add(subcommands)
    report_command.add(subcommands)
