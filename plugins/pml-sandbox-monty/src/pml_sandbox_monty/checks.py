"""What ``pml plugins doctor`` says of this executor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pml_hookspecs import Check, hookimpl
from pml_sandbox.engine import wall_checks

from .executor import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services

settings_type = Settings
"""Its table is that of the executor of the same name."""
REMEDY = "Run the gateway where this wall stands. Without it, Monty itself is all that keeps code in."


@hookimpl
def pml_checks(services: Services) -> Iterable[Check]:  # noqa: ARG001 - the hook's signature
    """Whether Monty is there, and one line for each wall of the jail around it."""
    return [_program(), *wall_checks(REMEDY, "monty")]


def _program() -> Check:
    try:
        from pydantic_monty import __version__

        from .workers import find_program

        find_program()
    except (ImportError, OSError) as exc:
        return Check("interpreter", False, str(exc), "Install pml-sandbox-monty again.")
    return Check("interpreter", True, f"version {__version__}")
