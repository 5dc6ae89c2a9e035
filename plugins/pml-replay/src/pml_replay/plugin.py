"""Hook plugin ``replay``: the command ``pml replay``."""

from __future__ import annotations

from typing import Any

from pml_hookspecs import hookimpl

from .settings import Settings

settings_type = Settings


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """``pml replay``."""
    from .command import add

    add(subcommands)
