"""Runs tool calls and other requests: asks the server, or the gateway's own tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from pml_catalog.definitions import HeldError
from pml_catalog.lookup import not_connected
from pml_catalog.server_views import reason_for
from pml_hookspecs import (
    Failure,
    InvalidArguments,
    MetaTool,
    Outcome,
    RawObject,
    RpcError,
    Run,
    ServerRequest,
    Session,
    Status,
    Task,
    ToolCall,
    ToolFailed,
    TransportError,
    replace,
    split_tool_id,
)
from pml_kit.mcp.principal_logins import LoginRequiredError
from pml_kit.outcomes import ended
from pml_mcp.wire.tool_results import text_of, text_result, tool_result

if TYPE_CHECKING:
    from pml_catalog.own_tools import OwnTools

    from . import Server
    from .links import Links

ASKED_IN_VAIN = (TimeoutError, TransportError, RpcError)
"""What asking a server raises."""
TASK_ID = b'"taskId"'
"""Member of each result that tells of a task."""
Learn: TypeAlias = "Callable[[Server, RawObject, str, Session], None]"
"""Told a server's result, the name of what gave it, and whose it is."""


class DirectExecutor:
    """Runs tool calls, and other requests of clients that are for one server."""

    def __init__(
        self,
        servers: Mapping[str, Server],
        own_tools: OwnTools,
        learn: Learn,
        links: Links,
        *,
        begins: Callable[[ToolCall, Run], None],
        started: bool = True,
    ) -> None:
        """Make one for the whole gateway.

        Args:
            servers: By name, those there are at any time.
            own_tools: Are answered here, all others by their servers.
            learn: Is told the results of servers that may tell of a task.
            links: Gives results on, their links as clients can follow them.
            begins: Is told before a server is asked to run a tool.
            started: False for servers of a command that only looks.
        """
        self._servers, self._own_tools, self._learn, self._links = servers, own_tools, learn, links
        self._begins, self._started = begins, started

    async def execute(self, task: ToolCall, run: Run) -> Outcome:
        """Call the tool; whatever goes wrong with it becomes an outcome."""
        started_at = datetime.now(UTC)
        if (own := self._own_tools.get(task.tool)) is not None:
            outcome = await self._own(own, task, run, started_at)
            # What the tool said that it cost, for budgets and limits around it.
            cost_usd = (getattr(run, "notes", None) or {}).get("cost_usd")
            return outcome if cost_usd is None else replace(outcome, cost_usd=cost_usd)
        name, tool = split_tool_id(task.tool)
        try:
            if (server := self._servers.get(name)) is None or not self._started:
                raise self._why_not(name)
            self._begins(task, run)
            result = await server.call_tool(tool, task, run)
            if TASK_ID in result.raw:
                self._learn(server, result, task.tool, run.session)
            if self._links.may_have(server, result):
                result = await self._links.followable(server, result, run.session)
        except HeldError as exc:
            return ended(task, started_at, Status.DENIED, failure=_held(name, tool, exc))
        except ASKED_IN_VAIN as exc:
            return _in_vain(task, run, started_at, name, exc, retryable=True)
        if says_error(result):
            failure = Failure("tool.failed", text_of(result) or f"{task.tool} failed without a message.")
            return ended(task, started_at, Status.ERROR, output=result, failure=failure)
        return ended(task, started_at, Status.OK, output=result)

    async def request(self, task: ServerRequest, run: Run) -> Outcome:
        """Send the request; whatever goes wrong with it becomes an outcome."""
        started_at = datetime.now(UTC)
        try:
            if (server := self._servers.get(task.server)) is None or not self._started:
                raise self._why_not(task.server)
            result = await server.request(task, run)
            if task.kind == "method" and TASK_ID in result.raw:
                self._learn(server, result, task.name, run.session)
            if self._links.may_have(server, result):
                result = await self._links.followable(server, result, run.session)
        except ASKED_IN_VAIN as exc:
            retryable = not isinstance(exc, TransportError) or exc.retryable
            return _in_vain(task, run, started_at, task.server, exc, retryable=retryable)
        return ended(task, started_at, Status.OK, output=result)

    def _why_not(self, server: str) -> TransportError:
        known = server in self._servers
        why = "this command starts no servers; give it --connect" if known else "it is not configured"
        return TransportError(why, retryable=False)

    async def _own(self, tool: MetaTool, task: ToolCall, run: Run, started_at: datetime) -> Outcome:
        if tool.call is None:
            raise RuntimeError(f"{task.tool} stands for a task, which the dispatcher should have put in its place")
        try:
            output = await tool.call(task.arguments, run)
        except InvalidArguments as exc:
            failure = Failure("arguments.invalid", str(exc))
            return ended(task, started_at, Status.ERROR, failure=failure)
        except ToolFailed as exc:
            result = tool_result(exc.content, is_error=True)
            return ended(task, started_at, Status.ERROR, output=result, failure=Failure("tool.failed", str(exc)))
        if isinstance(output, str):
            return ended(task, started_at, Status.OK, output=text_result(output))
        # A tool that gives a RawObject has made its text, too.
        result = tool_result(output, indented=not isinstance(output, RawObject))
        return ended(task, started_at, Status.OK, output=result)


def _in_vain(
    task: Task,
    run: Run,
    started_at: datetime,
    server: str,
    exc: TimeoutError | TransportError | RpcError,
    *,
    retryable: bool,
) -> Outcome:
    """The outcome of what a server could not be asked, did not answer, or refused."""
    if isinstance(exc, TimeoutError):
        failure = Failure("tool.timed_out", str(exc), retryable=True)
        return ended(task, started_at, Status.TIMED_OUT, failure=failure)
    if isinstance(exc, LoginRequiredError):
        details = {"server": server, "url": exc.url} if exc.url else {"server": server}
        failure = Failure("login.required", str(exc), retryable=True, details=details)
    elif isinstance(exc, RpcError):
        failure = Failure("tool.refused", exc.message, details={"rpc": exc.to_wire()})
    else:
        failure = not_connected(server, reason_for(run.session, exc), retryable=retryable)
    return ended(task, started_at, Status.ERROR, failure=failure)


def _held(server: str, tool: str, why: HeldError) -> Failure:
    message = (
        f"{server}:{tool} was not called: {why}. Its operator looks at that and accepts it with: "
        f"{why.remedy or f'pml servers accept {server}'}"
    )
    return Failure("policy.definition_changed", message, details={"server": server, "tool": tool})


def says_error(result: RawObject) -> bool:
    """Whether a ``CallToolResult`` has ``isError: true``. Only decoded when the bytes make it possible."""
    return b'"isError"' in result.raw and result.get("isError") is True
