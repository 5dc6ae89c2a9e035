"""For those who run a gateway: ``pml plugins``, ``pml config``, ``pml servers`` and ``pml auth``.

The hook plugin ``admin``, which every gateway imports and does not use.
"""

from __future__ import annotations

from typing import Any

from pml_hookspecs import hookimpl


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """What is installed and configured, what is wrong with it, and logging in to servers."""
    from .command import add

    add(subcommands)
