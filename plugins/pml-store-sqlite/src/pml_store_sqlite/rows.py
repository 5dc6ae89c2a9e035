"""Turns spans, tools and reports into rows and back. Runs in the writer's and the readers' threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CatalogEntry, Ended, ExecutionId, RawObject, ServerStatus, Span, Status, ToolId, encode

from .row_values import NOTHING, Row, as_object, clean, insert

if TYPE_CHECKING:
    import sqlite3

    from pml_hookspecs import Json

SPAN_COLUMNS = (
    "trace_id",
    "span_id",
    "parent_id",
    "name",
    "kind",
    "execution",
    "start_ns",
    "end_ns",
    "status",
    "attributes",
    "end_attributes",
)
TOOL_COLUMNS = ("server", "fingerprint", "id", "definition", "tokens", "digest", "meta")
STATUS_COLUMNS = ("name", "state", "reason", "tools", "restarts", "description")


def write_spans(connection: sqlite3.Connection, spans: Iterable[Ended]) -> None:
    """Insert ``spans``; those that are there already stay as they are."""
    texts: dict[tuple[Any, ...], bytearray] = {}
    rows = (_span_row(ended, texts) for ended in spans)
    insert(connection, "span", SPAN_COLUMNS, rows, "ON CONFLICT (trace_id, span_id) DO NOTHING")


def _attributes(attributes: Mapping[str, Json], texts: dict[tuple[Any, ...], bytearray]) -> bytearray | str:
    """``attributes`` as they are stored. ``texts`` has those written already: of many spans most are the same."""
    if not attributes:
        return NOTHING
    # Not of other values: 1 and true are equal, and lists cannot be looked up.
    if set(map(type, attributes.values())) != {str}:
        return bytearray(encode(attributes))
    members = tuple(attributes.items())
    if (text := texts.get(members)) is None:
        text = texts[members] = bytearray(encode(attributes))
    return text


def _span_row(ended: Ended, texts: dict[tuple[Any, ...], bytearray]) -> Row:
    span = ended.span
    return (
        span.trace_id,
        span.span_id,
        span.parent_id or NOTHING,
        clean(span.name),
        span.kind,
        span.execution or NOTHING,
        span.start_ns,
        ended.end_ns,
        str(ended.status),
        _attributes(span.attributes, texts),
        _attributes(ended.attributes, texts),
    )


def read_span(row: Row) -> Ended:
    """The span of a row of :data:`SPAN_COLUMNS`."""
    trace_id, span_id, parent_id, name, kind, execution, start_ns, end_ns, status, attributes, end_attributes = row
    span = Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id,
        name=name,
        kind=kind,
        execution=None if execution is None else ExecutionId(execution),
        start_ns=start_ns,
        attributes=as_object(attributes),
    )
    return Ended(span=span, end_ns=end_ns, status=Status(status), attributes=as_object(end_attributes))


def write_tools(connection: sqlite3.Connection, server: str, fingerprint: str, entries: Sequence[CatalogEntry]) -> None:
    """Make ``entries`` all that ``server`` has."""
    # By id: a server that lists a name twice means the last one, like a JSON object with a member twice.
    named = {clean(e.id): e for e in entries}
    rows = ((server, fingerprint, i, encode(e.definition), e.tokens, e.digest, int(e.meta)) for i, e in named.items())
    connection.execute("DELETE FROM catalog_tool WHERE server = ?", (server,))
    insert(connection, "catalog_tool", TOOL_COLUMNS, rows)


def read_tool(row: Row) -> CatalogEntry:
    """The entry of a row of :data:`TOOL_COLUMNS`; its definition is decoded on first use."""
    server, _, id_, definition, tokens, digest, meta = row
    return CatalogEntry(ToolId(id_), server, RawObject(definition), tokens, digest, bool(meta))


def write_status(connection: sqlite3.Connection, status: ServerStatus) -> None:
    """Insert or replace by name."""
    reason, description = clean(status.reason), clean(status.description)
    row = (status.name, status.state, reason, status.tools, status.restarts, description)
    connection.execute("DELETE FROM server_status WHERE name = ?", (status.name,))
    insert(connection, "server_status", STATUS_COLUMNS, [row])


def read_status(row: Row) -> ServerStatus:
    """The status of a row of :data:`STATUS_COLUMNS`."""
    name, state, reason, tools, restarts, description = row
    return ServerStatus(name=name, state=state, reason=reason, tools=tools, restarts=restarts, description=description)
