"""A command made of a function, `pml largest`: which tools take most room in a client's context. It gets the plugin's
services, so it sees the catalog that the gateway had when it last ran, or with `--connect` the one of now."""

from __future__ import annotations

from typing import Annotated, Any

from pml_hookspecs import Services, hookimpl
from pml_kit.command_line.functions import command


@hookimpl
def pml_commands(subcommands: Any) -> None:
    command(subcommands, largest)


async def largest(services: Services, limit: Annotated[int, "most tools to show"] = 10) -> str:
    """The tools with the longest definitions."""
    tools = sorted((entry for entry in services.catalog if not entry.own), key=lambda entry: (-entry.tokens, entry.id))
    return "\n".join(f"{entry.tokens:6}  {entry.id}" for entry in tools[:limit])
