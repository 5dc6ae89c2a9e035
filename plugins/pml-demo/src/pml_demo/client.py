"""A client of ``pml serve``: the official SDK's, over a real pipe to a real process."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import metadata
from typing import Any, TextIO

from mcp import Client, MCPError, StdioServerParameters, stdio_client, types
from pydantic import BaseModel

from .materials import Materials
from .problem import DemoError

ANSWER_S = 60.0
"""Longest that the gateway may take to answer [s]."""
NAME = "pml-demo"
"""What the client calls itself; history shows it as the agent."""
STATUS_URI = "pml://status"
META_INTENT = "pml/intent"


class RawPage(BaseModel):
    """A page of ``tools/list`` with the tools as they came; the SDK's own model drops what it does not know."""

    tools: list[dict[str, Any]]
    nextCursor: str | None = None  # noqa: N815 - the protocol's name


class Gateway:
    """A running gateway, as a client sees it. Made by :func:`started`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def version(self) -> str:
        """What the gateway says it is; ``""`` when it says nothing."""
        about = self._client.server_info
        return about.version if about is not None else ""

    async def tools(self, intent: str = "") -> list[dict[str, Any]]:
        """The tools listed, as they came over the wire; all pages."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            asked: dict[str, Any] = {"cursor": cursor} if cursor is not None else {}
            if intent:
                asked["_meta"] = {META_INTENT: intent}
            request = types.ListToolsRequest(params=types.PaginatedRequestParams.model_validate(asked))
            page = await self._client.session.send_request(request, RawPage)
            found += page.tools
            cursor = page.nextCursor
            if cursor is None:
                return found

    async def status(self) -> dict[str, Any]:
        """What ``pml://status`` says."""
        result = await self._client.read_resource(STATUS_URI)
        text = getattr(result.contents[0], "text", "")
        return dict(json.loads(text))

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call a tool of the gateway's own.

        Raises:
            DemoError: It answered that it failed, or not with an object.
        """
        return (await self.answer(tool, arguments))[0]

    async def answer(self, tool: str, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """As :meth:`call`, with the text that a model would read."""
        # Not Client.call_tool, which lists the tools after a call, to check the answer against a schema.
        parameters = types.CallToolRequestParams(name=tool, arguments=dict(arguments))
        request = types.CallToolRequest(params=parameters)
        result = await self._client.session.send_request(request, types.CallToolResult)
        text = "\n".join(getattr(block, "text", "") for block in result.content)
        if result.is_error:
            raise DemoError(f"{tool} failed: {text}")
        told = result.structured_content if result.structured_content is not None else _object(text)
        if not isinstance(told, dict):
            raise DemoError(f"{tool} answered without an object: {text[:500]}")
        return told, text


def _object(text: str) -> Any:
    """What a text says that is JSON; None for another."""
    try:
        return json.loads(text)
    except ValueError:
        return None


@asynccontextmanager
async def started(materials: Materials, log: TextIO, *options: str) -> AsyncIterator[Gateway]:
    """Start ``pml serve`` and connect to it; when left, its process and all of its servers' are gone.

    Args:
        materials: Gives its configuration and ``PML_HOME``.
        log: A real file, which the gateway's log goes to.
        *options: Further options of ``pml serve``.

    Raises:
        DemoError: It cannot be reached, or went away.
    """
    command = ["-m", "pml_core", "serve", "--config", str(materials.config), *options]
    environment = {"PML_HOME": str(materials.home)}
    parameters = StdioServerParameters(command=sys.executable, args=command, env=environment, cwd=materials.folder)
    problem: Exception | None = None
    try:
        async with Client(
            stdio_client(parameters, errlog=log),
            mode="legacy",
            client_info=types.Implementation(name=NAME, version=metadata.version(NAME)),
            read_timeout_seconds=ANSWER_S,
            cache=None,
        ) as client:
            try:
                yield Gateway(client)
            except Exception as exc:  # kept out of the SDK's task groups, which would wrap it
                problem = exc
    except* (MCPError, OSError) as group:
        problem = problem or _first(group)
    if isinstance(problem, MCPError):
        raise DemoError(f"the gateway answered with an error: {problem.message}") from problem
    if problem is not None:
        raise problem


def _first(group: BaseExceptionGroup[Exception]) -> Exception:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
