"""The same visit to a server made twice, directly and through the gateway, with all that passed kept as it was."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import anyio
from mcp import Client, MCPError, StdioServerParameters, stdio_client, types
from mcp.shared.message import SessionMessage

PML = str(Path(sys.executable).with_name("pml"))
METHOD_NOT_FOUND = -32601
ANSWER_S = 120.0
"""Longest wait for an answer; the machine may be busy [s]."""
META_SERVER_INFO = "io.modelcontextprotocol/serverInfo"
MODERN_ONLY = {"ttlMs", "cacheScope"}


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server that a visit can be made to."""

    name: str
    command: list[str]
    env: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of its table in the gateway's configuration."""

    @property
    def table(self) -> dict[str, Any]:
        program, *arguments = self.command
        return {"command": program, "args": arguments, "env": dict(self.env), **self.options}


class Witness:
    """A transport of the SDK's that keeps every message, before the SDK's types have dropped what they do not know."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._asked: dict[Any, str] = {}
        self.answers: dict[str, list[dict[str, Any]]] = {}
        """By method, ``{"result": …}`` or ``{"error": …}``, oldest first."""
        self.notes: list[tuple[str, dict[str, Any]]] = []
        """Notifications that came: method and params."""
        self.questions: list[tuple[str, dict[str, Any]]] = []
        """What the server asked the client, whichever way: method and params."""
        self._news = anyio.Event()

    async def until(self, condition: Callable[[], Any], within_s: float = ANSWER_S) -> Any:
        """What the condition comes to once it is truthy; what it is in the end, when no message makes it so in time."""
        with anyio.move_on_after(within_s):
            while not condition():
                await self._news.wait()
        return condition()

    def heard(self, method: str) -> list[dict[str, Any]]:
        """The params of the notifications of one method."""
        return [params for heard, params in self.notes if heard == method]

    async def __aenter__(self) -> tuple[_Tap, _Tap]:
        read, write = await self._transport.__aenter__()
        return _Tap(read, self._came), _Tap(write, self._went)

    async def __aexit__(self, *raised: object) -> Any:
        return await self._transport.__aexit__(*raised)

    def _went(self, item: SessionMessage) -> None:
        if isinstance(item.message, types.JSONRPCRequest):
            self._asked[item.message.id] = item.message.method

    def _came(self, item: SessionMessage | Exception) -> None:
        if isinstance(item, Exception):
            raise item
        message = item.message
        match message:
            case types.JSONRPCResponse():
                self._answered(message.id, {"result": message.result})
                for asked in message.result.get("inputRequests", {}).values():
                    self.questions.append((asked["method"], asked.get("params") or {}))
            case types.JSONRPCError():
                self._answered(message.id, {"error": message.error.model_dump(exclude_unset=True)})
            case types.JSONRPCRequest():
                self.questions.append((message.method, message.params or {}))
            case types.JSONRPCNotification():
                self.notes.append((message.method, message.params or {}))
        self._news.set()
        self._news = anyio.Event()

    def _answered(self, id: Any, answer: dict[str, Any]) -> None:
        self.answers.setdefault(self._asked.get(id, "?"), []).append(answer)


class _Tap:
    def __init__(self, stream: Any, keep: Callable[[Any], None]) -> None:
        self._stream, self._keep = stream, keep

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> Any:
        return await self._stream.__aexit__(*raised)

    def __aiter__(self) -> _Tap:
        return self

    async def __anext__(self) -> Any:
        item = await self._stream.__anext__()
        self._keep(item)
        return item

    async def send(self, item: Any) -> None:
        self._keep(item)
        await self._stream.send(item)


class Visitor:
    """What visits are made of; each step's outcome is kept as it came over the wire."""

    def __init__(self, client: Client, witness: Witness, server: str = "", *, wrapped: bool = False) -> None:
        """``server``: its name in the gateway, ``""`` without one. ``wrapped``: tools are called with ``call_tool``."""
        self.client, self.witness, self._server, self._wrapped = client, witness, server, wrapped
        self._prefix = f"{server}__" if server else ""
        self.modern = client.protocol_version >= "2026-07-28"
        self.chapter = ""
        """What the coming steps are about; begins their labels."""
        self.outcomes: list[tuple[str, Any]] = []
        self.tools: dict[str, Any] = {}
        """Definitions by the server's own name, each with that name."""
        self.order: list[str] = []
        """The server's own names in the order they were listed."""

    def keep(self, label: str, outcome: Any) -> None:
        """Note how a step ended."""
        self.outcomes.append((f"{self.chapter}: {label}" if self.chapter else label, outcome))

    def chapter_of(self, chapter: str) -> list[tuple[str, Any]]:
        """How the steps of one chapter ended."""
        return [outcome for outcome in self.outcomes if outcome[0].startswith(f"{chapter}: ")]

    async def step(self, label: str, method: str, asking: Awaitable[Any]) -> Any:
        """Wait for an answer to ``method`` and keep it, error or not; the typed answer, None when it was an error."""
        before = len(self.witness.answers.get(method, ()))
        typed = None
        try:
            typed = await asking
        except MCPError as exc:
            if len(self.witness.answers.get(method, ())) == before:
                self.keep(label, f"the client gave up: {exc}")
                return None
        self.keep(label, of_no_era(self.witness.answers[method][-1]))
        return typed

    async def list_tools(self) -> None:
        await self.client.list_tools()
        listed = self.witness.answers["tools/list"][-1]["result"]["tools"]
        own = [{**tool, "name": tool["name"].removeprefix(self._prefix)} for tool in listed]
        self.order = [tool["name"] for tool in own]
        self.tools = {tool["name"]: tool for tool in own}

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> Any:
        name, given = self._prefix + tool, dict(arguments or {})
        if self._wrapped:
            name, given = "call_tool", {"name": f"{self._server}:{tool}", "arguments": given}
        asking = self.client.call_tool(name, given, **more)
        return await self.step(f"{tool} {json.dumps(arguments)}", "tools/call", asking)

    async def read(self, uri: str) -> Any:
        return await self.step(f"read {uri}", "resources/read", self.client.read_resource(uri))

    async def prompt(self, name: str, arguments: dict[str, str] | None = None) -> Any:
        return await self.step(f"prompt {name}", "prompts/get", self.client.get_prompt(self._prefix + name, arguments))

    async def complete_prompt(self, name: str, argument: dict[str, str], context: dict[str, str] | None = None) -> Any:
        ref = types.PromptReference(name=self._prefix + name)
        asking = self.client.complete(ref, argument, context)
        return await self.step(f"complete {name} {argument}", "completion/complete", asking)

    async def complete_resource(self, template: str, argument: dict[str, str]) -> Any:
        asking = self.client.complete(types.ResourceTemplateReference(uri=template), argument)
        return await self.step(f"complete {template} {argument}", "completion/complete", asking)

    async def list_features(self) -> None:
        """Prompts, resources and templates, all of which the gateway has, and a server may not."""
        able = self.client.server_capabilities
        await self._list("prompts/list", "prompts", self.client.list_prompts if able.prompts else None)
        await self._list("resources/list", "resources", self.client.list_resources if able.resources else None)
        listing = self.client.list_resource_templates if able.resources else None
        await self._list("resources/templates/list", "resourceTemplates", listing)

    async def _list(self, method: str, member: str, listing: Callable[[], Awaitable[Any]] | None) -> None:
        items: list[dict[str, Any]] = []
        if listing is not None:
            try:
                await listing()
            except MCPError as exc:
                if exc.code != METHOD_NOT_FOUND:  # some servers with resources know nothing of templates
                    raise
            else:
                items = self.witness.answers[method][-1]["result"][member]
        own = [{**i, "name": i["name"].removeprefix(self._prefix)} if member == "prompts" else i for i in items]
        of_pml = ("pml://status", "pml://guide/workflows", "guide_workflows")
        self.keep(method, [i for i in own if i.get("uri", i["name"]) not in of_pml])


Visit = Callable[[Visitor], Awaitable[None]]


def of_no_era(answer: dict[str, Any]) -> dict[str, Any]:
    """``answer`` without what only one of the two eras has, and the other cannot say."""
    if "error" in answer:
        return answer
    result = {k: v for k, v in answer["result"].items() if k not in MODERN_ONLY}
    if result.get("resultType") == "complete":
        del result["resultType"]
    # What the gateway says about a result stands beside it.
    meta = {k: v for k, v in result.pop("_meta", {}).items() if k not in (META_SERVER_INFO, "pml/inspection")}
    return {"result": {**result, "_meta": meta} if meta else result}


def configuration(*servers: Server, **gateway: Any) -> dict[str, Any]:
    """A gateway's configuration with these servers."""
    return {"gateway": gateway, "servers": {server.name: server.table for server in servers}}


@asynccontextmanager
async def connected(
    command: list[str], env: Mapping[str, str], folder: Path, mode: str, **client: Any
) -> AsyncIterator:
    """The official SDK's client and its witness, connected to a process that lives as long as the block."""
    program, *arguments = command
    parameters = StdioServerParameters(command=program, args=arguments, env=dict(env), cwd=folder)
    failure: Exception | None = None
    with (folder / "stderr.log").open("a") as log:
        witness = Witness(stdio_client(parameters, errlog=log))
        options = {"mode": mode, "read_timeout_seconds": ANSWER_S, "cache": None, **client}
        async with Client(witness, **options) as made:
            try:
                yield made, witness
            except Exception as exc:  # kept out of the SDK's task groups, which would wrap it
                failure = exc
    if failure is not None:
        raise failure


async def directly(server: Server, folder: Path, mode: str, visit: Visit, **client: Any) -> Visitor:
    """Make a visit to a server without any gateway."""
    async with connected(server.command, server.env, folder, mode, **client) as (made, witness):
        visitor = Visitor(made, witness)
        await visit(visitor)
        return visitor


def serve(tree: Mapping[str, Any], folder: Path, *options: str) -> list[str]:
    """The command line of a gateway with this configuration."""
    config = folder / "pml.json"
    config.write_text(json.dumps(tree))
    return [PML, "serve", "--config", str(config), *options]


def beyond_gateway(folder: Path, mode: str, tree: Mapping[str, Any], **client: Any) -> AbstractAsyncContextManager[Any]:
    """As :func:`connected`, to a gateway with this configuration."""
    return connected(serve(tree, folder), {"PML_HOME": str(folder / "home")}, folder, mode, **client)


async def through(
    server: Server, folder: Path, mode: str, visit: Visit, *, block: Sequence[str] = (), **client: Any
) -> Visitor:
    """Make a visit to a server through a gateway that has only this one, and lists its tools as they are.

    ``block`` names plugins to go without.
    """
    tree = configuration(server, tools_exposure="full_proxy", block=list(block))
    async with beyond_gateway(folder, mode, tree, **client) as (made, witness):
        visitor = Visitor(made, witness, server.name)
        await visit(visitor)
        return visitor
