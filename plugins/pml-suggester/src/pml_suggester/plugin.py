"""Hook plugin ``suggester``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pml_hookspecs import hookimpl

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services, Suggester

settings_type = Settings


@hookimpl
def pml_suggesters(services: Services) -> Iterable[Suggester]:
    """The planner."""
    from .planner import Planner

    return [Planner(services, services.settings or Settings())]
