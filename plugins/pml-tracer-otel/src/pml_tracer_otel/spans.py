"""From what was watched to OpenTelemetry's spans."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from pml_hookspecs import encode

from . import names
from .active_executions import ActiveExecution, ServerCall

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    from pml_hookspecs import Session

    from .context import Trace

LONGEST = 16_384
"""Longest text of an attribute [characters]."""
LONGEST_NAME = 256
BIGGEST = (1 << 63) - 1
OK, FAILED = Status(StatusCode.UNSET), Status(StatusCode.ERROR)


class Spans:
    """Makes OpenTelemetry spans of executions and of calls to servers."""

    def __init__(self, resource: Resource, scope: InstrumentationScope, *, users: bool) -> None:
        """``users``: spans say for whom something ran."""
        self._resource, self._scope, self._users = resource, scope, users

    def of(self, item: ActiveExecution | ServerCall) -> ReadableSpan | None:
        """The span of ``item``; None when it is not one, such as when its ids are no ids."""
        try:
            return self._of_call(item) if isinstance(item, ServerCall) else self._of_execution(item)
        except (TypeError, ValueError):
            return None

    def _of_execution(self, watched: ActiveExecution) -> ReadableSpan:
        span, ended, trace = watched.span, watched.ended, watched.trace
        remote = span.parent_id is None and trace.parent_id is not None
        parent_id = span.parent_id or trace.parent_id
        error = watched.error
        links = () if trace.link is None or span.parent_id else (Link(_context(trace, *trace.link, remote=True)),)
        return ReadableSpan(
            name=_name(watched),
            context=_context(trace, trace.id, span.span_id),
            parent=None if parent_id is None else _context(trace, trace.id, parent_id, remote=remote),
            resource=self._resource,
            attributes=_plain(self._attributes(watched, error)),
            links=links,
            kind=SpanKind.SERVER if span.kind == "server" else SpanKind.INTERNAL,
            status=FAILED if error else OK,
            start_time=span.start_ns,
            end_time=ended.end_ns,
            instrumentation_scope=self._scope,
        )

    def _attributes(self, watched: ActiveExecution, error: str) -> dict[str, Any]:
        span, ended = watched.span, watched.ended
        said: dict[str, Any] = {
            **span.attributes,
            **ended.attributes,
            names.EXECUTION: span.execution,
            names.KIND: watched.kind,
            names.STATUS: str(ended.status),
            names.FAILURE: ended.attributes.get(names.ERROR),
            names.ERROR: error,
            names.SERVER: watched.server,
            names.ARGUMENTS: watched.arguments,
            names.DRY_RUN: watched.dry_run or None,
        }
        if watched.kind == "tool":
            said[names.OPERATION] = names.EXECUTE_TOOL
            if span.kind == "server":
                said[names.METHOD] = names.TOOLS_CALL
        elif watched.kind == "workflow":
            said[names.OPERATION] = names.INVOKE_WORKFLOW
        if watched.session is not None:
            said |= self._who(watched.session, root=span.parent_id is None)
        return said

    def _who(self, session: Session, *, root: bool) -> dict[str, Any]:
        said = {names.MODE: session.mode, names.ENDPOINT: session.endpoint}
        if root:
            said |= {names.PROTOCOL_VERSION: session.protocol, names.CLIENT: session.client}
        if self._users:
            said[names.USER] = session.principal
        return said

    def _of_call(self, call: ServerCall) -> ReadableSpan:
        trace = call.parent.trace
        said = {
            names.METHOD: names.TOOLS_CALL,
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL: call.tool,
            names.SERVER: call.server,
            names.ERROR: call.error,
            names.RPC_STATUS: call.rpc_code,
        }
        return ReadableSpan(
            name=f"{names.TOOLS_CALL} {_text(call.tool, LONGEST_NAME)}" if call.known else names.TOOLS_CALL,
            context=_context(trace, trace.id, call.span_id),
            parent=_context(trace, trace.id, call.parent.span.span_id),
            resource=self._resource,
            attributes=_plain(said),
            kind=SpanKind.CLIENT,
            status=FAILED if call.error else OK,
            start_time=call.start_ns,
            end_time=call.end_ns,
            instrumentation_scope=self._scope,
        )


def _name(watched: ActiveExecution) -> str:
    """Of few different values, whatever clients send: a tool that does not exist is not named."""
    kind = watched.kind
    if kind == "workflow":
        return names.INVOKE_WORKFLOW
    if kind != "tool":
        return _text(watched.span.name, LONGEST_NAME)
    method = names.TOOLS_CALL if watched.span.kind == "server" else names.EXECUTE_TOOL
    return f"{method} {_text(watched.tool, LONGEST_NAME)}" if watched.known and watched.tool else method


def _context(trace: Trace, trace_id: str, span_id: str, *, remote: bool = False) -> SpanContext:
    state = TraceState.from_header([trace.state]) if trace.state else TraceState()
    return SpanContext(int(trace_id, 16), int(span_id, 16), remote, TraceFlags(TraceFlags.SAMPLED), state)


def _plain(said: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes as OpenTelemetry takes them; those that say nothing are left out."""
    return {name: _value(value) for name, value in said.items() if value is not None and value != ""}


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return _text(value, LONGEST)
    if isinstance(value, bool) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, int):
        return value if -BIGGEST <= value <= BIGGEST else str(value)
    if isinstance(value, Sequence) and value and all(isinstance(member, str) for member in value):
        return tuple(_text(member, LONGEST) for member in value)
    return _text(encode(value).decode(), LONGEST)


def _text(text: str, longest: int) -> str:
    """``text`` as UTF-8 can hold it, not too long."""
    short = text if len(text) <= longest else text[: longest - 1] + "…"
    return short if short.isascii() else short.encode("utf-8", "replace").decode()
