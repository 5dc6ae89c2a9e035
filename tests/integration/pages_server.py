"""An MCP server with pages and tickets, in a process of its own: ``python pages_server.py structured|text``.

``structured``: results are structured, and tools say whether they read. ``text``: they are JSON in a text, and no tool
says anything of itself.
"""

from __future__ import annotations

import json
import sys
from typing import Any

TEXT = {"type": "string"}
PAGE = {"slug": TEXT, "title": TEXT, "body": TEXT}
TOOLS = {
    "create_page": (PAGE, ["slug", "title", "body"]),
    "get_page": ({"slug": TEXT}, ["slug"]),
    "update_page": (PAGE, ["slug"]),
    "delete_page": ({"slug": TEXT}, ["slug"]),
    "list_pages": ({}, []),
    "create_ticket": ({"title": TEXT}, ["title"]),
    "get_ticket": ({"ticket_id": {"type": "integer"}}, ["ticket_id"]),
    "close_ticket": ({"id": {"type": "integer"}, "state": TEXT}, ["id"]),
}
pages: dict[str, dict[str, Any]] = {}
tickets: dict[int, dict[str, Any]] = {}


def call(name: str, given: dict[str, Any]) -> Any:
    """What the tool returns. Raises LookupError for what is not there, ValueError for what is there already."""
    if name == "list_pages":
        return {"pages": list(pages.values())}
    if name == "create_ticket":
        id_ = len(tickets) + 1
        tickets[id_] = {"id": id_, "title": given["title"], "state": "open"}
        return tickets[id_]
    if name in ("get_ticket", "close_ticket"):
        ticket = tickets[given.get("ticket_id", given.get("id"))]
        if name == "close_ticket":
            ticket["state"] = given.get("state", "closed")
        return ticket
    slug = given["slug"]
    if name == "create_page":
        if slug in pages:
            raise ValueError(slug)
        pages[slug] = dict(given)
    if slug not in pages:
        raise LookupError(slug)
    if name == "update_page":
        pages[slug] |= given
    return pages.pop(slug) if name == "delete_page" else pages[slug]


def definition(name: str, *, annotated: bool) -> dict[str, Any]:
    """As listed."""
    properties, required = TOOLS[name]
    schema = {"type": "object", "properties": properties, "required": required}
    reads = name.startswith(("get", "list"))
    return {"name": name, "inputSchema": schema} | ({"annotations": {"readOnlyHint": reads}} if annotated else {})


def result(name: str, given: dict[str, Any], *, structured: bool) -> dict[str, Any]:
    """A ``CallToolResult``."""
    try:
        value = call(name, given)
    except LookupError as exc:
        return {"content": [{"type": "text", "text": f"there is no {exc}"}], "isError": True}
    except ValueError as exc:
        return {"content": [{"type": "text", "text": f"{exc} is there"}], "isError": True}
    text = {"content": [{"type": "text", "text": json.dumps(value)}]}
    return text | ({"structuredContent": value} if structured else {})


def main() -> None:
    """Answer requests until the input ends."""
    structured = sys.argv[1] == "structured"
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        method, params = message["method"], message.get("params", {})
        if method == "initialize":
            about = {"name": "pages", "version": "1"}
            answer = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
        elif method == "tools/list":
            answer = {"tools": [definition(name, annotated=structured) for name in TOOLS]}
        else:
            answer = result(params["name"], params.get("arguments", {}), structured=structured)
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
