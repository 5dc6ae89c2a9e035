"""What ``pml plugins doctor`` says of this executor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pml_hookspecs import Check, hookimpl

from .executor import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services

settings_type = Settings
"""Its table is that of the executor of the same name."""


@hookimpl
def pml_checks(services: Services) -> Iterable[Check]:  # noqa: ARG001 - the hook's signature
    """One line for each wall of the jail."""
    from pml_sandbox.jail import walls

    remedy = "Run the gateway where this wall stands, or remove pml-sandbox-cpython, which runs no code without it."
    return [Check(f"jail: {wall.name}", wall.stands, wall.detail, "" if wall.stands else remedy) for wall in walls()]
