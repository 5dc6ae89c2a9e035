"""What clients are told when they connect: who it is that answers, its use, and what the servers say of theirs.

With one server behind the gateway, that server speaks: its name, its version, its instructions, and the gateway beside
it. With several the gateway does, and has a few words of each. Where a server is not up yet, what it said last time is
told; it is waited for only where it is the only one and was never seen before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from pml_catalog.naming import SEPARATOR, name_of
from pml_catalog.server_views import is_operator
from pml_kit.mcp.effects import ORDER, Effects, effects_of_tool
from pml_kit.mcp.tokens import estimate
from pml_mcp.wire.client import current_client
from pml_mcp.wire.self_description import MAPS, clean, sentences

if TYPE_CHECKING:
    from pml_catalog.live import LiveCatalog
    from pml_catalog.own_tools import OwnTools
    from pml_hookspecs import CatalogEntry, Session
    from pml_kit.offers import IndirectCalls
    from pml_mcp.clients.guides import Guides
    from pml_mcp.ports import ActiveConfig
    from pml_mcp.servers import Server
    from pml_mcp.servers.extensions import Allows, Extensions

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
CAPABILITIES: Mapping[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}
"""What servers may offer."""


class ServerInfo:
    """Says who answers a client (MCP ``serverInfo``)."""

    def __init__(
        self,
        servers: Mapping[str, Server],
        catalog: LiveCatalog,
        allows: Allows,
        active: ActiveConfig,
        version: str,
    ) -> None:
        """``allows`` says what a session may have, by the names of patterns."""
        self._servers, self._catalog, self._allows = servers, catalog, allows
        self._active, self._version = active, version

    def only_server(self, session: Session) -> Server | None:
        """The server that is the only one for a client; None where there are several, or it may know of none."""
        servers = [server for server in self._servers.values() if server.settings.enabled]
        if not is_operator(session):
            if len(servers) == 1:
                return servers[0] if self.may_know(servers[0].name, session) else None
            known = {status.name for status in self._catalog.servers(session)}
            servers = [server for server in servers if server.name in known]
        return servers[0] if len(servers) == 1 else None

    def shown_alone(self, session: Session) -> Server | None:
        """The only server, where the client's mode lists its tools alone, as if there were no gateway."""
        return self.only_server(session) if self._active.exposures.lists_servers_alone(session) else None

    def may_know(self, server: str, session: Session) -> bool:
        """Whether ``session`` may have anything of a server."""
        if any(status.name == server for status in self._catalog.servers(session)):
            return True
        return any(self._allows(name_of(server, kind, ""), session) for kind in ("resource", "prompt"))

    def gateway(self) -> Mapping[str, Any]:
        """Who the gateway is; the same object as long as it says the same."""
        return _itself(self._active.config.gateway.name, self._version)

    def about(self, session: Session) -> Mapping[str, Any]:
        """Who answers a client: its only server where that has said who it is, else the gateway.

        The same object as long as it says the same.
        """
        server = self.only_server(session)
        return (server and server.greeting.words.about) or self.gateway()


@cache
def _itself(name: str, version: str) -> Mapping[str, Any]:
    return {"name": name, "title": "PML gateway", "version": version}


class FirstStarts(Protocol):
    """Knows which servers have not said yet who they are."""

    def is_new(self, server: Server) -> bool:
        """Whether it is being started and was never seen, nor waited for in vain."""
        ...

    async def met(self, server: Server, within_s: float) -> None:
        """Wait until a server has said who it is, counted from its start."""
        ...


class Introduction:
    """Says what a client is told when it connects."""

    def __init__(
        self,
        server_info: ServerInfo,
        catalog: LiveCatalog,
        own_tools: OwnTools,
        guides: Guides,
        starts: FirstStarts,
        extensions: Extensions,
        active: ActiveConfig,
        indirect_calls: IndirectCalls | None = None,
    ) -> None:
        """Make one for all clients; ``indirect_calls`` knows the tool by which one of them calls others."""
        self.server_info, self._catalog, self._extensions = server_info, catalog, extensions
        self._own_tools, self._guides, self._starts = own_tools, guides, starts
        self._active, self._indirect_calls = active, indirect_calls

    def capabilities(self, session: Session) -> dict[str, Any]:
        """What a client may use: of a server that is shown alone what that declares, and the gateway's own.

        Where there are several, or that one has not been up, all that servers may have: nobody waits to hear it.
        """
        possible, server = {**CAPABILITIES, **self._extensions.declared()}, self.server_info.shown_alone(session)
        said = None if server is None else server.greeting.capabilities
        if server is None or said is None:
            return possible
        has = {name for name in (*possible, *MAPS) if isinstance(said.get(name), Mapping)}
        told = {*has, *MAPS, "resources", *(["prompts"] if self._guides.names else [])}
        found = {name: said[name] for name in MAPS if name in has}
        found |= {name: value for name, value in possible.items() if name in told}
        if "resources" not in has or not (server.modern or said["resources"].get("subscribe")):
            found["resources"] = {"listChanged": True}
        return found

    async def greeting(
        self, session: Session, hello: Callable[[], None]
    ) -> tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
        """Of the result by which a client learns who answers: members, and members of its ``_meta``.

        ``hello`` tells servers of the client, which they wait for.
        """
        info, patience_s = self.server_info, self._active.config.gateway.list_wait_s / 2  # the list gets the rest
        if (server := info.only_server(session)) is not None and self._starts.is_new(server):
            hello()
            await self._starts.met(server, patience_s)
        text = await self.text(session)
        alone, client = info.shown_alone(session), current_client.get()
        if alone is not None and client is not None:
            await alone.meet(client, patience_s)
        is_servers = info.about(session) is not info.gateway()
        return {"instructions": text} if text else {}, {META_GATEWAY: info.gateway()} if is_servers else {}

    async def text(self, session: Session) -> str:
        """The text for one client, whose mode it fits: whoever has all tools at hand need not be told how to find them.

        ``""`` where there is nothing to tell that the client would not hear of its server.
        """
        listed = await self._listed_own(session)
        server = self.server_info.only_server(session)
        if server is not None and server.greeting.words.about:
            return self._of_one(server, listed)
        return self._of_several(session, listed)

    async def _listed_own(self, session: Session) -> list[CatalogEntry] | None:
        """The gateway's own tools that a client finds in its list; None where its mode lists the servers' alone."""
        if not (await self._active.exposures.of(session)).lists_meta_tools:
            return None
        left_out = self._catalog.left_out(session)
        meta = (entry for entry in self._catalog if entry.meta and entry.id not in left_out)
        return [entry for entry in meta if self._catalog.allows(entry, session)]

    async def finders(self, session: Session) -> list[str]:
        """Names of the tools in a client's list by which others are found."""
        return self._names(e for e in await self._listed_own(session) or () if self._finds(e))

    async def users(self, session: Session, effects: Effects) -> list[str]:
        """Names of the tools in a client's list by which a task with such effects can be run, and none with more.

        The one that calls other tools comes first.
        """
        listed = await self._listed_own(session) or ()
        standing = [(effects_of_tool(e.definition), e) for e in listed if self._stands_for_tasks(e)]
        enough = [one for one in standing if ORDER.index(one[0]) >= ORDER.index(effects)]
        least = min((found for found, _ in enough), key=ORDER.index, default=effects)
        names = self._names(entry for found, entry in enough if found == least)
        first = "" if self._indirect_calls is None else self._indirect_calls(session, least)
        return sorted(names, key=lambda name: name != first)

    def _stands_for_tasks(self, entry: CatalogEntry) -> bool:
        tool = self._own_tools.get(entry.id)
        return tool is not None and tool.task is not None

    def _finds(self, entry: CatalogEntry) -> bool:
        tool = self._own_tools.get(entry.id)
        return tool is not None and tool.whole_catalog and tool.call is not None

    def _names(self, entries: Iterable[CatalogEntry]) -> list[str]:
        return [self._catalog.exposed_name(entry.id) for entry in entries]

    def _use(self, listed: list[CatalogEntry]) -> list[str]:
        """How tools are used that are not listed, and what more there is to read of it."""
        found = self._names(entry for entry in listed if self._finds(entry))
        used = self._names(entry for entry in listed if not self._finds(entry))
        ways = [
            f"{verb} with {' and '.join([', '.join(names[:-1])] * (len(names) > 1) + names[-1:])}"
            for verb, names in (("found", found), ("used", used))
            if names
        ]
        how = [f"Tools that are not listed can be {' and '.join(ways)}."] if ways else []
        return [*how, *self._guides.told()]

    def _of_one(self, server: Server, listed: list[CatalogEntry] | None) -> str:
        """The server's own words, as it would say them itself, and then what is different through the gateway."""
        prefix = server.settings.prefix
        names = f"{server.name}{SEPARATOR}" if prefix is None else prefix
        own = self._use(listed) if listed is not None else [f"Tools are listed as {names}tool."] if names else []
        said = self._left(server.name, server.greeting.words.instructions)
        if not own or not said.strip():
            return said if not own else "\n".join(own)
        whose = f"The words above are those of the server {server.name!r}. It is reached through PML, a gateway:"
        return "\n".join([said, "", whose, *own])

    def _left(self, server: str, words: str) -> str:
        """What is left of what a server says of its use."""
        left = self._catalog.said(f"{server}:@instructions", server, {"instructions": words}) if words else None
        return "" if left is None else str(left["instructions"])

    def _of_several(self, session: Session, listed: list[CatalogEntry] | None) -> str:
        head = [SEVERAL, *self._use(listed)] if listed is not None else [f"{SEVERAL} {LISTED}"]
        servers = [one for one in self._catalog.servers(session) if one.state not in UNUSABLE]
        text, left = "\n".join([*head, SERVERS] if servers else head), ""
        for n, status in enumerate(servers):
            line = _line(status.name, self._left(status.name, status.description), finds=listed is not None)
            longer = f"{text}\n{line}"
            if len(longer) > MOST_CHARACTERS - len(MORE) - 1 or estimate(longer) > MOST_TOKENS:
                left = f"and {len(servers) - n} more: {', '.join(s.name for s in servers[n:])}"
                break
            text = longer
        cut = "…" in text
        return "\n".join([text, *([left] if left else []), *([MORE] if cut else [])])[:MOST_CHARACTERS]


def _line(server: str, words: str, *, finds: bool) -> str:
    said = clean(words)
    said = sentences(said, OF_A_SERVER, 1) if finds else sentences(said, OF_A_LISTED_SERVER)
    return f"- {server}: {said}" if said else f"- {server}"
