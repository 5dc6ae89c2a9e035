"""FastMCP's client against ``pml serve``."""

from __future__ import annotations

import pytest

fastmcp = pytest.importorskip("fastmcp", reason="needs FastMCP: pip install 'fastmcp>=4.1,<5'")
pytestmark = pytest.mark.anyio


@pytest.fixture
def client(site):
    from fastmcp.client.transports import StdioTransport

    command, *arguments = site.serve()
    transport = StdioTransport(
        command=command,
        args=arguments,
        env=site.environment,
        cwd=str(site.folder),
        keep_alive=False,
        log_file=site.log,
    )
    return fastmcp.Client(transport)


async def test_the_client_lists_and_calls(site, client):
    site.configure(plain=site.plain(), typed=site.sdk)
    async with client:
        assert sorted(t.name for t in await client.list_tools()) == ["call_tool", "execute_workflow", "search_tools"]
        echoed = await client.call_tool("plain__echo", {"text": "hello"})
        added = await client.call_tool("call_tool", {"name": "typed:add", "arguments": {"a": 1, "b": 2}})
    assert site.text_of(echoed) == "hello"
    assert added.structured_content == {"total": 3, "parts": [1, 2]}


async def test_an_error_of_a_tool_is_raised_with_its_text(site, client):
    from fastmcp.exceptions import ToolError

    async with client:
        await client.list_tools()
        with pytest.raises(ToolError, match="it always fails"):
            await client.call_tool("plain__fail", {})
