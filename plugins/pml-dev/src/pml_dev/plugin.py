"""Hook plugin ``dev``. Imported by every gateway, so nothing is."""

from __future__ import annotations

from typing import Any

from pml_hookspecs import hookimpl


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """``pml plugin new`` and ``pml bench plugins``."""
    from .command import add

    add(subcommands)
