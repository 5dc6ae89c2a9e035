"""The built-in executor of tool calls: ask the server, or the gateway's own tool."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from pml_core.catalog.definitions import HeldError
from pml_core.catalog.server_views import reason_for
from pml_core.kernel.admission import not_connected
from pml_core.kernel.chain import ended
from pml_hookspecs import (
    Failure,
    InvalidArguments,
    Json,
    MetaTool,
    Outcome,
    RawObject,
    RpcError,
    Run,
    ServerRequest,
    Status,
    ToolCall,
    ToolFailed,
    TransportError,
    encode,
    split_tool_id,
)

if TYPE_CHECKING:
    from pml_core.kernel.own_tools import OwnTools

    from . import Downstream


class DirectExecutor:
    """Runs tool calls."""

    def __init__(self, downstream: Downstream, own_tools: OwnTools) -> None:
        """``own_tools`` are answered here, all others by their servers."""
        self._downstream, self._own_tools = downstream, own_tools

    async def execute(self, task: ToolCall, run: Run) -> Outcome:
        """Call the tool; whatever goes wrong with it becomes an outcome."""
        started_at = datetime.now(UTC)
        if (own := self._own_tools.get(task.tool)) is not None:
            outcome = await self._own(own, task, run, started_at)
            # What the tool said that it cost, for budgets and limits around it.
            cost_usd = (getattr(run, "notes", None) or {}).get("cost_usd")
            return outcome if cost_usd is None else replace(outcome, cost_usd=cost_usd)
        server, name = split_tool_id(task.tool)
        try:
            result = await self._downstream.call_tool(server, name, task, run)
        except (TimeoutError, HeldError) as exc:
            held = isinstance(exc, HeldError)
            failure = _held(server, name, exc) if held else Failure("tool.timed_out", str(exc), retryable=True)
            return ended(task, started_at, Status.DENIED if held else Status.TIMED_OUT, failure=failure)
        except TransportError as exc:
            failure = not_connected(server, reason_for(run.session, exc))
            return ended(task, started_at, Status.ERROR, failure=failure)
        except RpcError as exc:
            failure = Failure("tool.refused", exc.message, details={"rpc": exc.to_wire()})
            return ended(task, started_at, Status.ERROR, failure=failure)
        if says_error(result):
            failure = Failure("tool.failed", text_of(result) or f"{task.tool} failed without a message.")
            return ended(task, started_at, Status.ERROR, output=result, failure=failure)
        return ended(task, started_at, Status.OK, output=result)

    async def request(self, task: ServerRequest, run: Run) -> Outcome:
        """Send the request; whatever goes wrong with it becomes an outcome."""
        started_at = datetime.now(UTC)
        try:
            result = await self._downstream.request(task, run)
        except TimeoutError as exc:
            failure = Failure("tool.timed_out", str(exc), retryable=True)
            return ended(task, started_at, Status.TIMED_OUT, failure=failure)
        except TransportError as exc:
            failure = not_connected(task.server, reason_for(run.session, exc), retryable=exc.retryable)
            return ended(task, started_at, Status.ERROR, failure=failure)
        except RpcError as exc:
            failure = Failure("tool.refused", exc.message, details={"rpc": exc.to_wire()})
            return ended(task, started_at, Status.ERROR, failure=failure)
        return ended(task, started_at, Status.OK, output=result)

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
        # A tool that gives a RawObject has made its text, too.
        result = tool_result(output, indented=not isinstance(output, RawObject))
        return ended(task, started_at, Status.OK, output=result)


def _held(server: str, tool: str, why: Exception) -> Failure:
    message = (
        f"{server}:{tool} was not called: {why}. Its operator looks at that and accepts it with: "
        f"pml servers accept {server}"
    )
    return Failure("policy.definition_changed", message, details={"server": server, "tool": tool})


def says_error(result: RawObject) -> bool:
    """Whether a ``CallToolResult`` has ``isError: true``. Only decoded when the bytes make it possible."""
    return b'"isError"' in result.raw and result.get("isError") is True


def text_of(result: Mapping[str, Any]) -> str:
    """The text blocks of a ``CallToolResult``, joined by line feeds."""
    blocks = result.get("content")
    texts = [b.get("text") for b in blocks if isinstance(b, Mapping)] if isinstance(blocks, list) else []
    return "\n".join(t for t in texts if isinstance(t, str))


def tool_result(value: Json, *, is_error: bool = False, indented: bool = True) -> RawObject:
    """A ``CallToolResult`` with ``value`` as structured content, and as text: JSON indented by two spaces, or compact.

    Raises:
        TypeError: ``value`` is not JSON.
    """
    # Encoded once and put together as bytes: with indentation, Python's own encoder takes ten times as long.
    raw = encode(value)
    parts = [b'{"content":[{"type":"text","text":', encode(_indented(raw, value) if indented else raw.decode()), b"}]"]
    if isinstance(value, Mapping):
        parts += [b',"structuredContent":', raw]
    if is_error:
        parts.append(b',"isError":true')
    return RawObject(b"".join([*parts, b"}"]))


def _indented(raw: bytes, value: Json) -> str:
    try:
        return msgspec.json.format(raw, indent=2).decode()
    except msgspec.DecodeError:  # numbers and characters that only Python takes for JSON
        return json.dumps(value, indent=2, ensure_ascii=False, default=dict)
