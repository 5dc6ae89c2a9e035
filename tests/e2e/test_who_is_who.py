"""Who a client of the gateway talks to: compared with the direct connection, by the official SDK's client."""

from __future__ import annotations

import asyncio
import sys

import pytest
from mcp import Client, ClientSessionGroup, StdioServerParameters, stdio_client
from mcp.types import ResourceUpdatedNotification

from .conftest import Site

pytestmark = pytest.mark.anyio
SERVER = """
import sys
from mcp.server.mcpserver import MCPServer
server = MCPServer(sys.argv[1], title="Clock of the house", version="7.1", instructions="Tells the time.\\n\\nIn UTC.")

@server.tool()
def search(query: str) -> str:
    return f"{sys.argv[1]} {query}"

server.run("stdio")
"""


PATIENT = ("--set", "gateway.list_wait_s=600")


def site_of(folder, name, *others):
    folder.mkdir()
    (folder / "server.py").write_text(SERVER)
    made = Site(folder)
    servers = {"one": name, **{other: other for other in others}}
    made.configure(**{key: [sys.executable, str(folder / "server.py"), called] for key, called in servers.items()})
    return made


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_only_server_is_seen_as_it_is_directly(tmp_path, mode):
    site = site_of(tmp_path / "a", "clock")
    direct = StdioServerParameters(command=sys.executable, args=[str(site.folder / "server.py"), "clock"])
    async with Client(stdio_client(direct), mode=mode) as client:
        expected = (client.server_info, client.instructions)
    for _start in ("first", "second"):
        async with site.connect("--mode", "full_proxy", *PATIENT, mode=mode, listed=False) as client:
            assert client.server_info == expected[0]
            assert client.instructions.startswith(expected[1])


@pytest.mark.parametrize("others", [(), ("two",)], ids=["one server each", "two servers each"])
async def test_two_gateways_do_not_collide_in_a_group_of_sessions(tmp_path, others):
    sites = {name: site_of(tmp_path / name, name, *others) for name in ("left", "right")}
    async with ClientSessionGroup(component_name_hook=lambda name, info: f"{info.name}.{name}") as group:
        for name, site in sites.items():
            command, *arguments = site.serve(*PATIENT, *(("--set", f"gateway.name={name}") if others else ()))
            await group.connect_to_server(
                StdioServerParameters(command=command, args=arguments, env=site.environment, cwd=site.folder)
            )
        assert {"left.search_tools", "right.search_tools"} <= group.tools.keys()
        for name in ("left", "right"):
            result = await group.call_tool(f"{name}.call_tool", {"name": "one__search", "arguments": {"query": "x"}})
            assert Site.text_of(result) == f"{name} x"


TWIN = """
import sys
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ResourceLink
server = MCPServer(sys.argv[1])

@server.resource("demo://doc")
def doc() -> str:
    return sys.argv[1]

@server.resource("demo://of/{key}")
def of(key: str) -> str:
    return f"{sys.argv[1]} {key}"

@server.tool()
def links() -> list[ResourceLink]:
    uris = ("demo://doc", "demo://of/7")
    return [ResourceLink(type="resource_link", uri=uri, name="x") for uri in uris]

@server.tool()
async def touch(context: Context) -> str:
    for uri in ("demo://doc", "demo://of/7"):
        await context.session.send_resource_updated(uri)
    return "touched"

server.run("stdio")
"""


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_links_of_two_servers_of_one_make_lead_back(tmp_path, mode):
    (tmp_path / "server.py").write_text(TWIN)
    commands = {name: [sys.executable, str(tmp_path / "server.py"), name] for name in ("left", "right")}
    site = Site(tmp_path)
    site.configure(**commands)
    for name, (command, *arguments) in commands.items():
        async with Client(stdio_client(StdioServerParameters(command=command, args=arguments)), mode=mode) as client:
            links = [block.uri for block in (await client.call_tool("links", {})).content]
            expected = [(await client.read_resource(uri)).contents[0].text for uri in links]
        async with site.connect(mode=mode) as client:
            given = [block.uri for block in (await client.call_tool(f"{name}__links", {})).content]
        async with site.connect(mode=mode) as client:  # another gateway, which remembers nothing of the first
            read = [(await client.read_resource(uri)).contents[0].text for uri in given]
        assert read == expected
        assert (given == links) == (name == "left")


async def test_changes_that_two_servers_of_one_make_tell_unasked_lead_back(tmp_path):
    (tmp_path / "server.py").write_text(TWIN)
    commands = {name: [sys.executable, str(tmp_path / "server.py"), name] for name in ("left", "right")}
    site = Site(tmp_path)
    site.configure(**commands)

    async def told(client, heard, tool):
        """The URIs that the client is told of, and what is read from there."""
        heard.clear()
        await client.call_tool(tool, {})
        async with asyncio.timeout(120):
            while len(heard) < 2:  # noqa: ASYNC110 - the handler is the client's
                await asyncio.sleep(0.01)
        return list(heard), [(await client.read_resource(uri)).contents[0].text for uri in heard]

    def listening(heard):
        async def handler(message):
            if isinstance(message, ResourceUpdatedNotification):
                heard.append(str(message.params.uri))

        return handler

    direct, heard = {}, []
    for name, (command, *arguments) in commands.items():
        transport = stdio_client(StdioServerParameters(command=command, args=arguments))
        async with Client(transport, mode="legacy", message_handler=listening(heard)) as client:
            direct[name] = await told(client, heard, "touch")
    async with site.connect(message_handler=listening(heard)) as client:
        await client.list_resources()
        await client.list_resource_templates()
        for name, (uris, texts) in direct.items():
            given, read = await told(client, heard, f"{name}__touch")
            assert read == texts
            assert (given == uris) == (name == "left")
