"""What a client does in each scenario, whatever stands between it and the server."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from mcp import Client
from sides import Scenario, Side

SECOND_STREAM_S = 1.0
"""How long streams are watched after the calls [s]."""


async def play(scenario: Scenario, side: Side) -> None:
    """Play ``scenario``, logging in as often as the server asks for it.

    Raises:
        Exception: The client did not get what it wanted.
    """
    part = PARTS.get(scenario.name, call_all_tools)
    if side.logs_in_first:
        await side.log_in()
    for _ in range(2):
        async with side.connect() as client:
            if await side.ready(client):
                await part(client, scenario)
                return
        await side.log_in()
    raise RuntimeError("the server asks for a login again and again")


async def call_all_tools(client: Client, scenario: Scenario) -> None:
    """List the tools and call each, with something for every argument that it wants."""
    for tool in (await client.list_tools()).tools:
        await client.call_tool(tool.name, _arguments(tool.input_schema))


async def only_list(client: Client, scenario: Scenario) -> None:
    """List the tools, and whatever else there is."""
    await client.list_tools()


async def echo_a_schema(client: Client, scenario: Scenario) -> None:
    """Give one tool's schema to another as it was listed."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    schema = tools["json_schema_2020_12_tool"].input_schema
    await client.call_tool("json_schema_echo", {"schema": schema})


async def calls_of_context(client: Client, scenario: Scenario) -> None:
    """Make the very calls that the scenario asks for; those that the server refuses are part of it."""
    listed = {tool.name for tool in (await client.list_tools()).tools}
    for call in scenario.context.get("toolCalls", []):
        if call["name"] in listed:
            await client.call_tool(call["name"], call.get("arguments", {}))


async def everything(client: Client, scenario: Scenario) -> None:
    """Tools, resources and prompts, each listed and used once."""
    await call_all_tools(client, scenario)
    for resource in (await client.list_resources()).resources:
        if not str(resource.uri).startswith("pml:"):
            await client.read_resource(resource.uri)
    for prompt in (await client.list_prompts()).prompts:
        await client.get_prompt(prompt.name)


async def watch(client: Client, scenario: Scenario) -> None:
    """Call the tools, and wait while streams that were closed are opened again."""
    await call_all_tools(client, scenario)
    await asyncio.sleep(SECOND_STREAM_S)


async def questions(client: Client, scenario: Scenario) -> None:
    """Call the tools that ask back; the SDK's client answers, and calls again with what the server gave it to keep."""
    tools = [tool.name for tool in (await client.list_tools()).tools]
    for name in tools:
        if name != "test_mrtr_unrelated":
            # One of them leaves out what the SDK insists on; that it was sent once is what matters.
            with suppress(ValueError):
                await client.call_tool(name, {})
            await client.call_tool("test_mrtr_unrelated", {})


PARTS = {
    "elicitation-sep1034-client-defaults": call_all_tools,
    "sse-retry": watch,
    "request-metadata": only_list,
    "json-schema-ref-no-deref": only_list,
    "json-schema-2020-12-preservation": echo_a_schema,
    "http-custom-headers": calls_of_context,
    "http-standard-headers": everything,
    "sep-2322-client-request-state": questions,
}


def _arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """Something for each property that is required, by its type."""
    samples = {"number": 5, "integer": 5, "string": "x", "boolean": True, "array": [], "object": {}}
    properties = schema.get("properties", {})
    return {name: samples.get(properties.get(name, {}).get("type"), "x") for name in schema.get("required", [])}
