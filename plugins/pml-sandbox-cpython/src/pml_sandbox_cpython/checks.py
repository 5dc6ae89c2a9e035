"""What ``pml plugins doctor`` says of the executor ``cpython``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pml_hookspecs import hookimpl
from pml_sandbox.engine import wall_checks

from .executor import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Check, Services

settings_type = Settings
"""Its table is that of the executor of the same name."""
REMEDY = "Run the gateway where this wall stands, or remove pml-sandbox-cpython, which runs no code without it."


@hookimpl
def pml_checks(services: Services) -> Iterable[Check]:  # noqa: ARG001 - the hook's signature
    """One line for each wall of the jail."""
    return wall_checks(REMEDY, "cpython")
