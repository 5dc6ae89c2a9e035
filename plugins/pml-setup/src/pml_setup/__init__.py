"""For those who set a gateway up: commands that take over a client's servers, and change files of the configuration.

The hook plugin ``setup``, which every gateway imports and does not use.
"""

from __future__ import annotations

from typing import Any

from pml_hookspecs import hookimpl


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """``pml import``, ``connect``, ``disconnect``, ``trust`` and ``untrust``, and what changes files in two others."""
    from . import config_options, importer, servers_change, trust
    from .clients import connect, disconnect

    for module in (importer, connect, disconnect, trust, config_options, servers_change):
        module.add(subcommands)
