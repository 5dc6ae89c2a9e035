"""Requests of a client for one server besides ``tools/call``: from the params to a task, and back to an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import (
    EMPTY,
    Failure,
    Outcome,
    RawObject,
    RpcError,
    RunOptions,
    ServerRequest,
    Status,
    ToolCall,
    ToolId,
    TransportError,
    replace,
)
from pml_kit.json_members import META, meta_of, without_envelope
from pml_mcp.wire.tool_results import text_of

from .tool_calls import META_DRY_RUN, META_LEVEL, dry_run_of, own_of, progress_to

if TYPE_CHECKING:
    from pml_hookspecs import Session
    from pml_mcp.ports import Dispatcher

    from .tool_calls import ProgressSink

REFUSED = -31997
"""JSON-RPC code of our own, outside the range that JSON-RPC and MCP reserve: the gateway did not send a request on."""
TAKEN = frozenset({META_DRY_RUN, META_LEVEL})
"""Keys of ``_meta`` that go no further."""


async def send(
    dispatcher: Dispatcher,
    session: Session,
    request: ServerRequest,
    client: ProgressSink | None,
    unknown: RpcError,
) -> Mapping[str, Any]:
    """Send ``request`` through the chain to its server; what that answers.

    Args:
        client: Hears of progress; None when nobody does.
        unknown: The answer where ``session`` may not know that there is what it is for.

    Raises:
        RpcError: The server's error, ``unknown``, or why it was not sent.
        TimeoutError: No answer in time.
        TransportError: The server cannot be reached.
    """
    params = RawObject.of(request.params)
    meta = meta_of(params) if META in params.raw else {}
    token = None if client is None else meta.get("progressToken")
    options = RunOptions(
        intent=session.intent,
        dry_run=dry_run_of(meta) if meta else None,
        trigger="mcp",
        meta=own_of(meta) if meta else EMPTY,
        progress=None if client is None or token is None else progress_to(client, token),
    )
    task = replace(request, params=without_envelope(params, TAKEN))
    outcome = await dispatcher.start(task, session, options)
    return _answer(outcome, unknown)


async def read(
    dispatcher: Dispatcher, session: Session, tool: ToolId, uri: str, unknown: RpcError
) -> Mapping[str, Any]:
    """The result of ``resources/read`` for a resource that a tool of the gateway's own reads.

    Raises:
        RpcError: ``unknown``, where the tool finds no such resource or ``session`` may not know of it, or why it was
            not asked.
    """
    call = ToolCall(id="request", tool=tool, arguments={"uri": uri})
    outcome = await dispatcher.start(call, session, RunOptions(intent=session.intent))
    failure = outcome.failure
    if failure is None and isinstance(outcome.output, Mapping):
        return {"contents": [{"uri": uri, "text": text_of(outcome.output)}]}
    if failure is None or failure.code in ("arguments.invalid", "tool.unknown"):
        raise unknown
    raise RpcError(REFUSED, failure.message, _about(failure, outcome.status))


def _answer(outcome: Outcome, unknown: RpcError) -> Mapping[str, Any]:
    failure = outcome.failure
    if failure is None:
        return RawObject.of(outcome.output) if isinstance(outcome.output, Mapping) else {}
    if isinstance(rpc := failure.details.get("rpc"), Mapping):
        code: Any = rpc["code"]
        raise RpcError(code, str(rpc["message"]), rpc.get("data"))
    if failure.code == "request.unknown":
        raise unknown
    if failure.code == "tool.timed_out":
        raise TimeoutError(failure.message)
    if failure.code == "tool.not_connected":
        raise TransportError(failure.message, retryable=failure.retryable)
    raise RpcError(REFUSED, failure.message, _about(failure, outcome.status))


def _about(failure: Failure, status: Status) -> dict[str, Any]:
    details = dict(failure.details)
    return {"code": failure.code, "status": status.value, "retryable": failure.retryable, "details": details}
