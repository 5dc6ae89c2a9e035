"""A session played: what was listed, and what was answered to each request of a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from calls import GOOD, Call, planned
from entries import Entry
from mcp import MCPError
from pydantic import TypeAdapter, ValidationError
from ways import DIRECT, Connection, prefix

RAW: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
"""Results as they were sent, with members that the SDK does not know."""
LISTS: Mapping[str, str] = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
LIMIT_S = 10.0
"""Longest for an answer of a server to a direct client; the gateway gets three times that, so that it says so."""
MOST_RESOURCES = 20
_METHODS: Mapping[str, type[types.Request[Any, Any]]] = {
    "tools/call": types.CallToolRequest,
    "prompts/get": types.GetPromptRequest,
    "resources/read": types.ReadResourceRequest,
}
Answer = Mapping[str, Any]
"""``result``, ``error``, ``invalid`` (what the SDK refused to read), ``silent`` or ``closed``."""


@dataclass(frozen=True, eq=False)
class Step:
    """A request: a call of a tool, a prompt, or a resource. Two are never equal."""

    method: str
    name: str
    """As the server has it; of a resource, its URI."""
    kind: str
    label: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """What it is called in reports."""
        return f"{self.method} {self.name}: {self.label}"

    def params(self, way: str, server: str) -> dict[str, Any]:
        """What is sent on a way."""
        if self.method == "resources/read":
            return {"uri": self.name}
        if way == "call_tool":
            wanted = {"name": f"{server}:{self.name}", "arguments": dict(self.arguments)}
            return {"name": "call_tool", "arguments": wanted}
        return {"name": prefix(way, server) + self.name, "arguments": dict(self.arguments)}


@dataclass
class Recording:
    """All that came back."""

    initialized: Mapping[str, Any]
    lists: dict[str, Any] = field(default_factory=dict)
    """By method: the items of all pages before the steps, or an :data:`Answer` that is no result."""
    later: dict[str, Any] = field(default_factory=dict)
    """The same after them."""
    answers: dict[Step, Answer] = field(default_factory=dict)


async def _asked(connection: Connection, request: types.Request[Any, Any], limit_s: float) -> Answer:
    try:
        return {"result": await connection.session.send_request(request, RAW, limit_s)}
    except MCPError as exc:
        error = exc.error
        if error.code == types.REQUEST_TIMEOUT:
            return {"silent": limit_s}
        if error.code == types.CONNECTION_CLOSED:
            return {"closed": error.message}
        return {"error": error.model_dump(mode="json", by_alias=True, exclude_none=True)}
    except ValidationError as exc:
        return {"invalid": str(exc)}


async def listed(connection: Connection, method: str, limit_s: float) -> Any:
    """All pages of a list, or the answer that was none."""
    kind = {
        "tools/list": types.ListToolsRequest,
        "prompts/list": types.ListPromptsRequest,
        "resources/list": types.ListResourcesRequest,
        "resources/templates/list": types.ListResourceTemplatesRequest,
    }[method]
    found: list[Any] = []
    cursor: str | None = None
    while True:
        params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
        answer = await _asked(connection, kind(params=params), limit_s)
        if "result" not in answer:
            return answer
        found += answer["result"].get(LISTS[method], [])
        cursor = answer["result"].get("nextCursor")
        if not cursor:
            return found


def plan(entry: Entry, recording: Recording) -> list[Step]:
    """Every tool that may be called, those with examples first; every prompt; the first resources."""

    def items(method: str) -> Iterable[Mapping[str, Any]]:
        found = recording.lists.get(method)
        return found if isinstance(found, list) else ()

    def steps(call: Call) -> Step:
        return Step("tools/call", call.tool, call.kind, call.label, call.arguments)

    known = {name: place for place, name in enumerate(entry.examples)}
    tools = [tool for tool in items("tools/list") if not entry.forbidden(tool["name"])]
    tools.sort(key=lambda tool: known.get(tool["name"], len(known)))
    found = [steps(call) for tool in tools for call in planned(tool, entry.examples.get(tool["name"], ()))]
    for prompt in items("prompts/list"):
        words = {argument["name"]: "one" for argument in prompt.get("arguments") or ()}
        found.append(Step("prompts/get", prompt["name"], GOOD, "all arguments", words))
    resources = list(items("resources/list"))[:MOST_RESOURCES]
    return [*found, *(Step("resources/read", resource["uri"], GOOD, "read") for resource in resources)]


async def played(
    connection: Connection,
    way: str,
    server: str,
    steps: Sequence[Step] | None,
    told: Callable[[int], None] = lambda _: None,
) -> Recording:
    """Read the lists, send every step in turn, read them again. Stops where the session ended."""
    limit_s = LIMIT_S if way == DIRECT else 3 * LIMIT_S
    recording = Recording(connection.initialized)
    recording.lists = {method: await listed(connection, method, 3 * limit_s) for method in LISTS}
    for number, step in enumerate(steps or (), 1):
        recording.answers[step] = answer = await _sent(connection, way, server, step, limit_s)
        told(number)
        if "closed" in answer:
            return recording
    recording.later = {method: await listed(connection, method, 3 * limit_s) for method in LISTS}
    return recording


async def _sent(connection: Connection, way: str, server: str, step: Step, limit_s: float) -> Answer:
    request = _METHODS[step.method].model_validate({"method": step.method, "params": step.params(way, server)})
    return await _asked(connection, request, limit_s)


def counted(recording: Recording) -> int:
    """How many answers are results that are no errors."""
    answers = recording.answers.values()
    return sum(1 for answer in answers if "result" in answer and not answer["result"].get("isError"))
