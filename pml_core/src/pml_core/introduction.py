"""What clients are told when they connect (MCP ``instructions``): what this is, its use, which servers there are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pml_hookspecs import ServerStatus, Session

    from .gateway import Gateway

LISTED = "Gateway to several MCP servers. Tools are listed as server__tool."
FOUND = (
    "Gateway to several MCP servers. Tools that are not listed can be found with search_tools and called with "
    "call_tool; execute_workflow runs several calls at once, and rehearses them with dry_run."
)
MOST_CHARACTERS = 2000
"""Of all of it: some clients cut it there."""
OF_A_SERVER, OF_A_LISTED_SERVER = 120, 500
"""Of what a server says of itself, where its tools are found and where they are listed [characters]."""
UNUSABLE = ("down", "disabled")
SENTENCE = re.compile(r"(?<=[.!?])\s")


async def introduction(gateway: Gateway, session: Session) -> str:
    """The text for one client, whose mode it fits: whoever has all tools at hand need not be told how to find them."""
    finds = (await gateway.exposures.of(session)).lists_meta_tools
    parts = [FOUND, *gateway.guides.told()] if finds else [LISTED]
    servers = [one for one in gateway.catalog.servers(session) if one.state not in UNUSABLE]
    if servers:
        parts.append("Servers:")
    text = "\n".join(parts)
    for n, status in enumerate(servers):
        line = _line(status, finds=finds)
        if len(text) + len(line) > MOST_CHARACTERS:
            return f"{text}\nand {len(servers) - n} more: {', '.join(s.name for s in servers[n:])}"[:MOST_CHARACTERS]
        text += f"\n{line}"
    return text


def _line(status: ServerStatus, *, finds: bool) -> str:
    said = " ".join(status.description.split())
    if finds:
        said = SENTENCE.split(said, maxsplit=1)[0]
    most = OF_A_SERVER if finds else OF_A_LISTED_SERVER
    said = said if len(said) <= most else f"{said[: most - 1]}…"
    return f"- {status.name}: {said}" if said else f"- {status.name}"
