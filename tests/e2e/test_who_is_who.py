"""Who a client of the gateway talks to: compared with the direct connection, by the official SDK's client."""

from __future__ import annotations

import sys

import pytest
from mcp import Client, ClientSessionGroup, StdioServerParameters, stdio_client

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


def site_of(folder, name):
    folder.mkdir()
    (folder / "server.py").write_text(SERVER)
    made = Site(folder)
    made.configure(one=[sys.executable, str(folder / "server.py"), name])
    return made


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_only_server_is_seen_as_it_is_directly(tmp_path, mode):
    site = site_of(tmp_path / "a", "clock")
    direct = StdioServerParameters(command=sys.executable, args=[str(site.folder / "server.py"), "clock"])
    async with Client(stdio_client(direct), mode=mode) as client:
        expected = (client.server_info, client.instructions)
    async with site.connect(mode=mode):
        pass  # a gateway greets before its servers are up: what they say is known from then on
    async with site.connect("--mode", "full_proxy", mode=mode, listed=False) as client:
        assert client.server_info == expected[0]
        assert client.instructions.startswith(expected[1])


async def test_two_gateways_do_not_collide_in_a_group_of_sessions(tmp_path):
    sites = [site_of(tmp_path / name, name) for name in ("left", "right")]
    for site in sites:
        async with site.connect():
            pass
    async with ClientSessionGroup(component_name_hook=lambda name, info: f"{info.name}.{name}") as group:
        for site in sites:
            command, *arguments = site.serve()
            await group.connect_to_server(
                StdioServerParameters(command=command, args=arguments, env=site.environment, cwd=site.folder)
            )
        assert {"left.search_tools", "right.search_tools"} <= group.tools.keys()
        for name in ("left", "right"):
            result = await group.call_tool(f"{name}.call_tool", {"name": "one__search", "arguments": {"query": "x"}})
            assert Site.text_of(result) == f"{name} x"
