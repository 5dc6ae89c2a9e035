"""For those who develop plugins: ``pml plugin new`` begins one, ``pml bench plugins`` measures what each costs.

The hook plugin ``dev``, which every gateway imports and does not use.
"""

from __future__ import annotations

from typing import Any

from pml_hookspecs import hookimpl


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """``pml plugin new`` and ``pml bench plugins``."""
    from .command import add

    add(subcommands)
