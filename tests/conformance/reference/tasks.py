"""The extension ``io.modelcontextprotocol/tasks``: calls that answer at once with a task, which is then asked about.

The SDK has nothing for it. Nothing runs in the background here, either: what a task is doing follows from the clock and
from what it was told.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import anyio
from asking_tools import answered, asks, form, state_of
from fixture import Context, Tool, is_modern, text, tool
from mcp import MCPError, types
from mcp.server import Server
from mcp.types import CallToolRequestParams, CallToolResult, RequestParams
from telling_tools import needs

EXTENSION = "io.modelcontextprotocol/tasks"
NAME_HEADER = "mcp-name"
TTL_MS, POLL_MS = 600_000, 100
Json = dict[str, Any]
OBJECT: Json = {"type": "object"}


class TaskParams(RequestParams):
    """Params of ``tasks/get`` and ``tasks/cancel``."""

    task_id: str


class UpdateParams(TaskParams):
    """Params of ``tasks/update``."""

    input_responses: dict[str, Any]


def now() -> str:
    """The time, as the wire has it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass
class Task:
    """A call that goes on after its answer."""

    outcome: Json
    """``{"result": …}`` or ``{"error": …}``, for when it is over."""
    lasts_s: float = 0.0
    questions: Json = field(default_factory=dict)
    """Requests to the client that have no answer yet; until then it is not over."""
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    created: str = field(default_factory=now)
    updated: str = field(default_factory=now)
    cancelled: bool = False
    begun: float = field(default_factory=time.monotonic)

    @property
    def status(self) -> str:
        """What it is doing."""
        if self.cancelled:
            return "cancelled"
        if self.questions:
            return "input_required"
        if time.monotonic() < self.begun + self.lasts_s:
            return "working"
        return "failed" if "error" in self.outcome else "completed"

    def brief(self) -> Json:
        """What every message about it has."""
        return {
            "taskId": self.id,
            "status": self.status,
            "createdAt": self.created,
            "lastUpdatedAt": self.updated,
            "ttlMs": TTL_MS,
            "pollIntervalMs": POLL_MS,
        }

    def whole(self) -> Json:
        """What ``tasks/get`` answers."""
        status = self.status
        more: Json = self.outcome if status in ("completed", "failed") else {}
        if status == "input_required":
            more = {"inputRequests": self.questions}
        return {"resultType": "complete", **self.brief(), **more}


def result(words: str, *, is_error: bool = False) -> Json:
    """An outcome of one text."""
    return {"result": text(words, is_error=is_error).model_dump(by_alias=True, mode="json", exclude_none=True)}


def failing_job(arguments: Json) -> Task:
    return Task(result("The job failed, as it always does", is_error=True), lasts_s=1.0)


def protocol_error_job(arguments: Json) -> Task:
    return Task({"error": {"code": types.INTERNAL_ERROR, "message": "The job broke the server"}}, lasts_s=0.2)


def asking(words: str, questions: Mapping[str, types.ElicitRequest]) -> Task:
    """A task that asks first."""
    asked = {key: each.model_dump(by_alias=True, mode="json", exclude_none=True) for key, each in questions.items()}
    return Task(result(words), questions=asked)


JOBS: Mapping[str, tuple[str, Callable[[Json], Task]]] = {
    "failing_job": ("Fails after a second.", failing_job),
    "protocol_error_job": ("Breaks.", protocol_error_job),
}
"""Tools that are always a task: description, and what makes it of the arguments."""
QUESTIONS: Mapping[str, tuple[str, Mapping[str, types.ElicitRequest]]] = {
    "confirm_delete": ("Asks the user before it is done.", {"confirm": form("Delete it?", confirm="boolean")}),
    "multi_input": (
        "Asks the user two things at once.",
        {"first": form("The first name?", name="string"), "second": form("The second name?", name="string")},
    ),
}
"""Tools that are a task for clients that know of tasks: description, and what they ask."""
SECONDS = {
    "type": "object",
    "properties": {"seconds": {"type": "number"}, "label": {"type": "string"}},
    "required": ["seconds"],
}


@tool(
    "Greets; never a task.",
    {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
)
async def greet(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
    return text(f"Hello, {(params.arguments or {}).get('name')}!")


class Tasks:
    """All tasks there are, and the tools that make them."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}

    def serve(self, server: Server[Any]) -> None:
        """Add the extension to a server."""
        server.extensions[EXTENSION] = {}
        server.add_request_handler("tasks/get", TaskParams, self._get)
        server.add_request_handler("tasks/update", UpdateParams, self._update)
        server.add_request_handler("tasks/cancel", TaskParams, self._cancel)

    def tools(self) -> list[Tool]:
        """The tools."""
        made = [
            greet,
            tool("Takes as long as it is told.", SECONDS)(self.slow_compute),
            tool("Asks for a name, then makes a task.")(self.test_tool_with_task),
        ]
        for name, (description, make) in JOBS.items():
            made.append(Tool(types.Tool(name=name, description=description, input_schema=OBJECT), self._job(make)))
        for name, (description, requests) in QUESTIONS.items():
            definition = types.Tool(name=name, description=description, input_schema=OBJECT)
            made.append(Tool(definition, self._questions(requests)))
        return made

    async def slow_compute(self, ctx: Context, params: CallToolRequestParams) -> Any:
        arguments = params.arguments or {}
        words, lasts_s = f"Computed {arguments.get('label', '')}", float(arguments.get("seconds", 0))
        if able(ctx):
            return self._begin(ctx, Task(result(words), lasts_s=lasts_s))
        await anyio.sleep(lasts_s)
        return text(words)

    async def test_tool_with_task(self, ctx: Context, params: CallToolRequestParams) -> Any:
        requests: dict[str, types.InputRequest] = {"user_name": form("What is your name?", name="string")}
        answers = answered(params, requests)
        if not answers or state_of(params) != "named":
            return asks(requests, "named")
        return self._begin(ctx, Task(result(f"A task for {answers['user_name'].get('content', {}).get('name')}")))

    def _job(self, make: Callable[[Json], Task]) -> Callable[[Context, CallToolRequestParams], Awaitable[Any]]:
        async def call(ctx: Context, params: CallToolRequestParams) -> Any:
            return self._begin(ctx, make(params.arguments or {}))

        return call

    def _questions(
        self, requests: Mapping[str, types.ElicitRequest]
    ) -> Callable[[Context, CallToolRequestParams], Awaitable[Any]]:
        async def call(ctx: Context, params: CallToolRequestParams) -> Any:
            if able(ctx):
                return self._begin(ctx, asking("Answered", requests))
            return text("Answered") if answered(params, requests) else asks(requests)

        return call

    def _begin(self, ctx: Context, task: Task) -> Json:
        needs(ctx, extensions={EXTENSION: {}})
        self._tasks[task.id] = task
        return {"resultType": "task", **task.brief()}

    def _known(self, ctx: Context, params: TaskParams) -> Task:
        needs(ctx, extensions={EXTENSION: {}})
        named = None if ctx.request is None else ctx.request.headers.get(NAME_HEADER)
        # The SDK compares this header only for the methods that it knows.
        if ctx.request is not None and named != params.task_id:
            raise MCPError(types.HEADER_MISMATCH, f"{NAME_HEADER} header does not match the request body's taskId")
        task = self._tasks.get(params.task_id)
        if task is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown task: {params.task_id}")
        return task

    async def _get(self, ctx: Context, params: TaskParams) -> Json:
        return self._known(ctx, params).whole()

    async def _update(self, ctx: Context, params: UpdateParams) -> Json:
        task = self._known(ctx, params)
        for key in params.input_responses:
            task.questions.pop(key, None)
        task.updated = now()
        return {"resultType": "complete"}

    async def _cancel(self, ctx: Context, params: TaskParams) -> Json:
        task = self._known(ctx, params)
        if task.status in ("working", "input_required"):
            task.cancelled, task.updated = True, now()
        return {"resultType": "complete"}


def able(ctx: Context) -> bool:
    """Whether a client knows of tasks."""
    return is_modern(ctx) and ctx.session.check_client_capability(types.ClientCapabilities(extensions={EXTENSION: {}}))
