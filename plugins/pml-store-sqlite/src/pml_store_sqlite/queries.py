"""The questions about spans and the catalog, as SQL."""
# ruff: noqa: S608 - the SQL is put together from this module's own text; every value is a parameter

from __future__ import annotations

from typing import TYPE_CHECKING

from pml_hookspecs import Ended

from . import conditions
from .row_values import clean
from .rows import SPAN_COLUMNS, STATUS_COLUMNS, TOOL_COLUMNS, read_span, read_status, read_tool

if TYPE_CHECKING:
    import sqlite3

    from pml_hookspecs import CatalogEntry, ExecutionId, Scope, ServerStatus


def spans(connection: sqlite3.Connection, execution: ExecutionId, scope: Scope) -> list[Ended]:
    """See :meth:`pml_hookspecs.Traces.of`. System scope also sees spans whose execution was never recorded."""
    found = conditions.Conditions()
    condition = f"execution = {found.value(clean(execution))}"
    if scope.principals is not None:
        seen = conditions.scope(found, scope)
        condition += f" AND EXISTS (SELECT 1 FROM execution AS e WHERE e.id = span.execution AND {seen})"
    rows = connection.execute(
        f"SELECT {', '.join(SPAN_COLUMNS)} FROM span WHERE {condition} ORDER BY start_ns, span_id",
        found.values,
    )
    return [read_span(row) for row in rows]


def tools(connection: sqlite3.Connection, server: str, fingerprint: str) -> list[CatalogEntry]:
    """See :meth:`pml_hookspecs.CatalogCache.entries`."""
    rows = connection.execute(
        f"SELECT {', '.join(TOOL_COLUMNS)} FROM catalog_tool WHERE server = ? AND fingerprint = ? ORDER BY id",
        [server, fingerprint],
    )
    return [read_tool(row) for row in rows]


def statuses(connection: sqlite3.Connection) -> list[ServerStatus]:
    """See :meth:`pml_hookspecs.CatalogCache.statuses`."""
    return [
        read_status(row)
        for row in connection.execute(f"SELECT {', '.join(STATUS_COLUMNS)} FROM server_status ORDER BY name")
    ]
