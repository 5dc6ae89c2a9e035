"""The MCP servers that the guides' examples call, of the standard library only: ``office.py NAME FOLDER``.

What they do is written to ``FOLDER/done.txt``, a line for each effect.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

NUMBER, TEXT = {"type": "integer"}, {"type": "string"}
READS, DESTROYS = {"readOnlyHint": True}, {"destructiveHint": True}
ADDS = {"destructiveHint": False, "idempotentHint": False}
BUGS = [{"number": 7, "title": "Crash on start", "votes": 12}, {"number": 9, "title": "Typo in help", "votes": 1}]
PEOPLE = {"Ada": "ada@example.com", "Ben": "ben@example.com"}
FAILS_FIRST = {"feeds:fetch"}

tried: dict[str, int] = {}


def tool(description: str, annotations: dict[str, bool] | None = None, **parameters: dict[str, str]) -> dict[str, Any]:
    """A tool without its name; all parameters are required."""
    schema = {"type": "object", "properties": parameters, "required": list(parameters)}
    about = {"description": description, "inputSchema": schema}
    return about if annotations is None else {**about, "annotations": annotations}


TOOLS: dict[str, dict[str, dict[str, Any]]] = {
    "tracker": {
        "search": tool("Find bugs.", READS, query=TEXT),
        "label": tool("Put a label on a bug.", ADDS, number=NUMBER, label=TEXT),
        "unlabel": tool("Take a label off a bug.", ADDS, number=NUMBER, label=TEXT),
        "delete": tool("Delete a bug for good.", DESTROYS, number=NUMBER),
    },
    "people": {"find": tool("Find the mail address of somebody by name.", READS, name=TEXT)},
    "mail": {"send": tool("Send a mail.", None, to=TEXT, body=TEXT)},
    "feeds": {"fetch": tool("Fetch a news feed.", READS, url=TEXT)},
}
ANSWERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "tracker:search": lambda given: {"total": len(BUGS), "items": BUGS},
    "tracker:label": lambda given: {"number": given["number"], "labels": [given["label"]]},
    "tracker:unlabel": lambda given: {"number": given["number"], "labels": []},
    "tracker:delete": lambda given: {"deleted": given["number"]},
    "people:find": lambda given: {"name": given["name"], "email": PEOPLE[given["name"]]},
    "mail:send": lambda given: {"sent": True},
    "feeds:fetch": lambda given: {"url": given["url"], "entries": 3},
}


def call(server: str, name: str, arguments: dict[str, Any], done: Path) -> dict[str, Any]:
    """A ``CallToolResult``."""
    id_ = f"{server}:{name}"
    tried[id_] = tried.get(id_, 0) + 1
    try:
        if id_ in FAILS_FIRST and tried[id_] == 1:
            raise LookupError("try again")
        answer = ANSWERS[id_](arguments)
    except LookupError as exc:
        return {"content": [{"type": "text", "text": f"{id_} found nothing: {exc}"}], "isError": True}
    if TOOLS[server][name].get("annotations") != READS:
        with done.open("a", encoding="utf-8") as file:
            file.write(f"{id_} {json.dumps(arguments)}\n")
    return {"content": [{"type": "text", "text": json.dumps(answer)}], "structuredContent": answer}


def main() -> None:
    """Answer requests until the input ends."""
    server, done = sys.argv[1], Path(sys.argv[2]) / "done.txt"
    tools = [{"name": name, **about} for name, about in TOOLS[server].items()]
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        method, params = message["method"], message.get("params", {})
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        if method == "initialize":
            about = {"name": server, "version": "1"}
            answer["result"] = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": about,
            }
        elif method == "tools/list":
            answer["result"] = {"tools": tools}
        elif method == "tools/call":
            answer["result"] = call(server, params["name"], params.get("arguments", {}), done)
        else:
            answer["error"] = {"code": -32601, "message": f"Method not found: {method}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
