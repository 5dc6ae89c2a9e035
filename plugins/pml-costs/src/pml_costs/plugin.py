"""The hook plugin ``costs``. Imported by every ``pml --help``, so nothing heavy is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Check, hookimpl

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services, Wrapper

settings_type = Settings


@hookimpl
def pml_wrap_executor(services: Services) -> Iterable[Wrapper]:
    """What says what each call cost; nothing where there is nothing to say."""
    settings: Settings = services.settings or Settings()
    if not (settings.estimates or settings.tools or settings.models):
        return []
    from .wrapper import Pricing

    return [Pricing(settings)]


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """``pml costs``."""
    from .command import add

    add(subcommands)


@hookimpl
def pml_checks(services: Services) -> Iterable[Check]:
    """Prices that fit no tool, and models whose prices are asked for and not there."""
    from .checks import checks

    return checks(services)
