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
    """Whether Monty is there, and one line for each wall of the jail around it."""
    from pml_sandbox.jail import walls

    remedy = "Run the gateway where this wall stands. Without it, Monty itself is all that keeps code in."
    lines = [Check(f"jail: {wall.name}", wall.stands, wall.detail, "" if wall.stands else remedy) for wall in walls()]
    return [_program(), *lines]


def _program() -> Check:
    try:
        from pydantic_monty import __version__

        from .workers import find_program

        find_program()
    except (ImportError, OSError) as exc:
        return Check("interpreter", False, str(exc), "Install pml-sandbox-monty again.")
    return Check("interpreter", True, f"version {__version__}")
