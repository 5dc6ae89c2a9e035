"""All that a store finds, page by page, in its order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

from pml_hookspecs import replace

if TYPE_CHECKING:
    from pml_hookspecs import Document, Documents, ExecutionQuery, ExecutionRecord, Executions


async def every_execution(
    executions: Executions, query: ExecutionQuery, *, most: int | None = None
) -> AsyncIterator[ExecutionRecord]:  # fmt: skip
    """Those that a query finds, at most so many, with ``limit`` on a page; who stops early has no further page read."""
    seen = 0
    while True:
        page = await executions.find(query)
        for record in page.items:
            yield record
            seen += 1
            if seen == most:
                return
        if page.cursor is None:
            return
        query = replace(query, cursor=page.cursor)


async def every_document(
    documents: Documents, collection: str, *, marks: Mapping[str, str] | None = None, page: int = 200
) -> AsyncIterator[Document]:
    """Those of a collection with all of these marks, the last changed first; ``page`` of them at a time."""
    cursor: str | None = None
    while True:
        found = await documents.find(collection, marks=marks, limit=page, cursor=cursor)
        for document in found.items:
            yield document
        cursor = found.cursor
        if cursor is None:
            return
