"""Read a server's lists, page by page, and keep what is usable of its tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pml_hookspecs import RawObject, RpcError
from pml_hookspecs.protocol import METHOD_NOT_FOUND

MOST_PAGES = 1000
"""Pages of one list that are asked for; more is taken for a server that pages in circles."""


async def every_item(ask: Callable[[str, RawObject], Awaitable[RawObject]], method: str, member: str) -> list[Any]:
    """All items of a list, over all its pages; none when the server does not know the method (MCP, pagination)."""
    found: list[Any] = []
    cursor: Any = None
    for _ in range(MOST_PAGES):
        try:
            page = await ask(method, RawObject.of({} if cursor is None else {"cursor": cursor}))
        except RpcError as exc:
            if exc.code == METHOD_NOT_FOUND:
                break
            raise
        items = page.get(member)
        found += items if isinstance(items, list) else []
        cursor = page.get("nextCursor")  # an empty string is a cursor, too
        if cursor is None:
            break
    return found


def usable_tools(listed: Sequence[Any], log: Any) -> list[dict[str, Any]]:
    """The tools that have a name, each name once; one that is broken never hides the others."""
    found: dict[str, dict[str, Any]] = {}
    for definition in listed:
        name = definition.get("name") if isinstance(definition, dict) else None
        if not isinstance(name, str) or not name:
            log.warning("a tool without a name is left out", tool=repr(definition)[:200])
            continue
        if name in found:
            log.warning("a tool is listed twice; the first one counts", tool=name)
            continue
        schema = definition.get("inputSchema")
        if not isinstance(schema, dict) or schema.get("type") != "object":
            log.warning("a tool's inputSchema is not of type object; clients are shown one that is", tool=name)
        found[name] = definition
    return list(found.values())
