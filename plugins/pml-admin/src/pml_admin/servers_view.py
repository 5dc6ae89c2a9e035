"""``pml servers list`` and ``tools``: what is configured, how it was last seen, and which of its tools may be had."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pml_catalog.definitions import LOCK, key_of
from pml_clients import secret_values
from pml_clients.configuration.view import no_server
from pml_kit.command_line.start_progress import until_started
from pml_kit.terminal import print_columns, print_json, printable

if TYPE_CHECKING:
    import argparse

    from pml_hookspecs import CatalogEntry, ServerStatus
    from pml_mcp.server_settings import ServerSettings
    from pml_settings.config import Config
    from pml_settings.installation import Installation

NOT_SEEN = "not seen yet"
LONGEST = 80


def run_list(arguments: argparse.Namespace, installation: Installation) -> int:
    """Print one line per server."""
    config = installation.config
    statuses, tools, blocked = asyncio.run(_looked(installation, list(config.servers), connect=arguments.connect))
    rows = [_about(config, name, statuses.get(name), tools[name]) for name in config.servers]
    rows = [{**row, "blocked": blocked[row["name"]]} for row in rows]
    if arguments.json:
        print_json({"servers": rows})
    elif rows:
        header = ("SERVER", "STATE", "TOOLS", "ALLOWED", "AT", "CONFIGURED IN")
        keys = ("name", "state", "tools", "allowed", "at", "source")
        print_columns([[printable(str(row[key])) for key in keys] for row in rows], header)
        for name in filter(blocked.get, config.servers):
            print(f"Blocked of {name} until pml lock review: {', '.join(map(printable, blocked[name]))}")
    else:
        print("No servers are configured. pml servers add NAME -- COMMAND, or: pml import")
    return 0


def run_tools(arguments: argparse.Namespace, installation: Installation) -> int:
    """Print one line per tool of a server."""
    config, name = installation.config, arguments.server
    settings = settings_of(config, name)
    _, tools, blocked = asyncio.run(_looked(installation, [name], connect=arguments.connect))
    shown: list[dict[str, Any]] = [
        {
            "name": e.name,
            "allowed": settings.tools.allows(e.name),
            "blocked": e.name in blocked[name],
            "tokens": e.tokens,
            "description": e.description,
        }
        for e in sorted(tools[name], key=lambda e: e.name)
    ]
    if arguments.json:
        print_json({"server": name, "tools": shown})
    elif shown:
        rows = [
            (printable(one["name"]), "yes" if one["allowed"] else "no", str(one["tokens"]), _short(one["description"]))
            for one in shown
        ]
        print_columns(rows, ("TOOL", "ALLOWED", "TOKENS", "DESCRIPTION"))
        if blocked[name]:
            print(f"Blocked until pml lock review: {', '.join(map(printable, blocked[name]))}")
    else:
        print(f"No tool of {name} is known. Start it and look: pml servers tools {name} --connect")
    return 0


def settings_of(config: Config, name: str) -> ServerSettings:
    """The section of a server.

    Raises:
        OperatorError: There is none.
    """
    if name in config.servers:
        return config.servers[name]
    raise no_server(name, config.servers)


def _about(config: Config, name: str, status: ServerStatus | None, tools: list[CatalogEntry]) -> dict[str, Any]:
    settings = config.servers[name]
    table = secret_values.masked({"command": settings.command, "args": list(settings.args), "url": settings.url})
    at = " ".join([table["command"], *table["args"]]) if settings.command else table["url"] or settings.address
    state = "disabled" if not settings.enabled else NOT_SEEN if status is None else status.state
    return {
        "name": name,
        "state": state,
        "reason": "" if status is None or not settings.enabled else status.reason,
        "tools": len(tools),
        "allowed": sum(settings.tools.allows(entry.name) for entry in tools),
        "at": at,
        "sandbox": settings.options.get("sandbox", False) if settings.command else None,
        "source": config.says(("servers", name)) or "default",
    }


async def _looked(
    installation: Installation, names: list[str], *, connect: bool
) -> tuple[Mapping[str, ServerStatus], dict[str, list[CatalogEntry]], dict[str, list[str]]]:
    """How servers are, or were when last seen; all that they list, allowed or not; what the lock blocks of that."""
    async with installation.gateway(connect=connect, servers=names) as gateway:
        if connect:
            await until_started(gateway.statuses)
        kept = [] if connect or gateway.store is None else await gateway.store.catalog.statuses()
        statuses = {s.name: s for s in (gateway.statuses() if connect else kept)}
        blocked: dict[str, list[str]] = {name: [] for name in names}
        if gateway.store is not None:
            for name in names:
                found = await gateway.store.documents.get(LOCK, key_of(name, installation.config.servers[name]))
                blocked[name] = [] if found is None else [one["tool"] for one in found.value["blocked"]]
        return statuses, {name: [e for e in gateway.tools() if e.server == name] for name in names}, blocked


def _short(text: str) -> str:
    line = printable(text.strip().partition("\n")[0])
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
