"""Requests of a client for one server besides ``tools/call``: from the params to a task, and back to an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pml_core.mcp.members import META, meta_of, without_envelope
from pml_hookspecs import (
    Failure,
    Outcome,
    RawObject,
    RpcError,
    ServerRequest,
    Status,
    TransportError,
)

from .tool_calls import META_DRY_RUN, META_LEVEL, dry_run_of, own_of, progress_to

if TYPE_CHECKING:
    from pml_core.kernel.dispatch import Dispatcher
    from pml_core.kernel.execution_run import RunOptions
    from pml_hookspecs import Session

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
    asked: RunOptions = {"intent": session.intent}
    if meta:
        asked["dry_run"] = dry_run_of(meta)
        asked["meta"] = own_of(meta)
        if client is not None and (token := meta.get("progressToken")) is not None:
            asked["progress"] = progress_to(client, token)
    outcome = await dispatcher.start(request.with_params(without_envelope(params, TAKEN)), session, **asked)
    return _answer(outcome, unknown)


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
