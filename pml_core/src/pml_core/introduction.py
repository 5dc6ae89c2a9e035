"""What clients are told when they connect: who it is that answers, its use, and what the servers say of theirs.

With one server behind the gateway, that server speaks: its name, its version, its instructions, and the gateway beside
it. With several the gateway does, and has a few words of each. Where a server is not up yet, what it said last time is
told; it is waited for only where it is the only one and was never seen before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from pml_hookspecs.tokens import estimate

from .naming import SEPARATOR
from .server_views import is_operator
from .words import clean, sentences

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, ServerStatus, Session

    from .downstream import Server
    from .gateway import Gateway

META_GATEWAY = "pml/gateway"
"""Key of ``_meta``: who the gateway is, where a server's own name stands in its place."""
SEVERAL = "Gateway to several MCP servers."
LISTED = f"Tools are listed as server{SEPARATOR}tool."
SERVERS = "Servers, in their own words:"
MORE = "All that they say of themselves is in the resource pml://status."
MOST_TOKENS, MOST_CHARACTERS = 500, 2000
"""Of all of it, where there are several servers: some clients cut it there."""
OF_A_SERVER, OF_A_LISTED_SERVER = 30, 125
"""Of what a server says of itself, where its tools are found and where they are listed [tokens]."""
UNUSABLE = ("down", "disabled")


def only_server(gateway: Gateway, session: Session) -> Server | None:
    """The server that is the only one for a client; None where there are several, or it may know of none."""
    servers = [server for server in gateway.servers.values() if server.settings.enabled]
    if not is_operator(session):
        if len(servers) == 1:
            return servers[0] if gateway.may_know(servers[0].name, session) else None
        known = {status.name for status in gateway.catalog.servers(session)}
        servers = [server for server in servers if server.name in known]
    return servers[0] if len(servers) == 1 else None


@cache
def _itself(name: str, version: str) -> Mapping[str, Any]:
    return {"name": name, "title": "PML gateway", "version": version}


def gateway_itself(gateway: Gateway) -> Mapping[str, Any]:
    """Who the gateway is; the same object as long as it says the same."""
    return _itself(gateway.config.gateway.name, gateway.version)


def about(gateway: Gateway, session: Session) -> Mapping[str, Any]:
    """Who answers a client (MCP ``serverInfo``): its only server where that has said who it is, else the gateway.

    The same object as long as it says the same.
    """
    server = only_server(gateway, session)
    return (server and server.greeting.words.about) or gateway_itself(gateway)


async def greeting(
    gateway: Gateway, session: Session, hello: Callable[[], None]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of the result by which a client learns who answers: members, and members of its ``_meta``.

    ``hello`` tells servers of the client, which they wait for.
    """
    if (server := only_server(gateway, session)) is not None and gateway.fleet.is_new(server):
        hello()
        await gateway.fleet.met(server, gateway.config.gateway.list_wait_s / 2)  # the list gets the rest
    text = await introduction(gateway, session)
    is_servers = about(gateway, session) is not gateway_itself(gateway)
    return {"instructions": text} if text else {}, {META_GATEWAY: gateway_itself(gateway)} if is_servers else {}


async def introduction(gateway: Gateway, session: Session) -> str:
    """The text for one client, whose mode it fits: whoever has all tools at hand need not be told how to find them.

    ``""`` where there is nothing to tell that the client would not hear of its server.
    """
    listed = await listed_own(gateway, session)
    server = only_server(gateway, session)
    if server is not None and server.greeting.words.about:
        return _of_one(gateway, server, listed)
    return _of_several(gateway, session, listed)


async def listed_own(gateway: Gateway, session: Session) -> list[CatalogEntry] | None:
    """The gateway's own tools that a client finds in its list; None where its mode lists the servers' alone."""
    if not (await gateway.exposures.of(session)).lists_meta_tools:
        return None
    return [entry for entry in gateway.catalog if entry.meta and gateway.catalog.allows(entry, session)]


async def finders(gateway: Gateway, session: Session) -> list[str]:
    """Names of the tools in a client's list by which others are found."""
    return _names(gateway, [e for e in await listed_own(gateway, session) or () if _finds(gateway, e)])


def _finds(gateway: Gateway, entry: CatalogEntry) -> bool:
    tool = gateway.own_tools.get(entry.id)
    return tool is not None and tool.whole_catalog and tool.call is not None


def _names(gateway: Gateway, entries: list[CatalogEntry]) -> list[str]:
    return [gateway.catalog.exposed_name(entry.id) for entry in entries]


def _use(gateway: Gateway, listed: list[CatalogEntry]) -> list[str]:
    """How tools are used that are not listed, and what more there is to read of it."""
    found = _names(gateway, [entry for entry in listed if _finds(gateway, entry)])
    used = _names(gateway, [entry for entry in listed if not _finds(gateway, entry)])
    ways = [
        f"{verb} with {' and '.join([', '.join(names[:-1])] * (len(names) > 1) + names[-1:])}"
        for verb, names in (("found", found), ("used", used))
        if names
    ]
    how = [f"Tools that are not listed can be {' and '.join(ways)}."] if ways else []
    return [*how, *gateway.guides.told()]


def _of_one(gateway: Gateway, server: Server, listed: list[CatalogEntry] | None) -> str:
    """The server's own words, as it would say them itself, and then what is different through the gateway."""
    prefix = server.settings.prefix
    names = f"{server.name}{SEPARATOR}" if prefix is None else prefix
    own = _use(gateway, listed) if listed is not None else [f"Tools are listed as {names}tool."] if names else []
    said = server.greeting.words.instructions
    if not own or not said.strip():
        return said if not own else "\n".join(own)
    whose = f"The words above are those of the server {server.name!r}. It is reached through PML, a gateway:"
    return "\n".join([said, "", whose, *own])


def _of_several(gateway: Gateway, session: Session, listed: list[CatalogEntry] | None) -> str:
    head = [SEVERAL, *_use(gateway, listed)] if listed is not None else [f"{SEVERAL} {LISTED}"]
    servers = [one for one in gateway.catalog.servers(session) if one.state not in UNUSABLE]
    text, left = "\n".join([*head, SERVERS] if servers else head), ""
    for n, status in enumerate(servers):
        line = _line(status, finds=listed is not None)
        longer = f"{text}\n{line}"
        if len(longer) > MOST_CHARACTERS - len(MORE) - 1 or estimate(longer) > MOST_TOKENS:
            left = f"and {len(servers) - n} more: {', '.join(s.name for s in servers[n:])}"
            break
        text = longer
    cut = "…" in text
    return "\n".join([text, *([left] if left else []), *([MORE] if cut else [])])[:MOST_CHARACTERS]


def _line(status: ServerStatus, *, finds: bool) -> str:
    said = clean(status.description)
    said = sentences(said, OF_A_SERVER, 1) if finds else sentences(said, OF_A_LISTED_SERVER)
    return f"- {status.name}: {said}" if said else f"- {status.name}"
