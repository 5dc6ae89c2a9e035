"""An MCP server whose tools are the functions of a small script: what the fixture ``stdio_server`` runs.

``python fixtures_script.py SCRIPT`` speaks JSON-RPC lines on standard input and output. Of the standard library alone,
so that it starts fast; run by its path, so that it needs nothing installed.
"""

from __future__ import annotations

import inspect
import json
import sys
import traceback
import typing
from collections.abc import Callable, Mapping
from typing import Any

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
METHOD_NOT_FOUND, INVALID_PARAMS = -32601, -32602
Function = Callable[..., Any]


def functions(path: str) -> dict[str, Function]:
    """The public functions that a script defines itself, by name."""
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib is slow to import
        source = file.read()
    names: dict[str, Any] = {"__name__": "script", "__file__": path}
    exec(compile(source, path, "exec"), names)
    mine = {name: value for name, value in names.items() if inspect.isfunction(value) and value.__module__ == "script"}
    return {name: function for name, function in mine.items() if not name.startswith("_")}


def definition(name: str, function: Function) -> dict[str, Any]:
    """A function as a tool: its parameters make the schema, its docstring the description."""
    hints = typing.get_type_hints(function)
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name)
        kind = TYPES.get(typing.get_origin(hint) or hint)  # type: ignore[arg-type] # None is no type, and is not found
        schema["properties"][parameter.name] = {"type": kind} if kind else {}
        if parameter.default is inspect.Parameter.empty:
            schema.setdefault("required", []).append(parameter.name)
    return {"name": name, "description": inspect.getdoc(function) or "", "inputSchema": schema}


def result_of(value: Any) -> dict[str, Any]:
    """A ``CallToolResult``: a dictionary is structured content, one with ``content`` the whole result."""
    if isinstance(value, dict) and "content" in value:
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    told: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    return {**told, "structuredContent": value} if isinstance(value, dict) else told


def called(tools: Mapping[str, Function], params: Mapping[str, Any]) -> dict[str, Any]:
    """Run a tool. What it raises is an error of the tool's, as MCP has it."""
    function = tools[params["name"]]
    arguments = params.get("arguments") or {}
    try:
        inspect.signature(function).bind(**arguments)
        return result_of(function(**arguments))
    except Exception as exc:
        traceback.print_exc()
        return {**result_of(f"{type(exc).__name__}: {exc}"), "isError": True}


def answer(tools: Mapping[str, Function], method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """``{"result": …}`` or ``{"error": …}``."""
    if method == "initialize":
        asked = params.get("protocolVersion")
        revision = asked if asked in REVISIONS else REVISIONS[-1]
        about = {"name": "script", "version": "1"}
        return {"result": {"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": about}}
    if method == "ping":
        return {"result": {}}
    if method == "tools/list":
        return {"result": {"tools": [definition(name, function) for name, function in tools.items()]}}
    if method != "tools/call":
        return {"error": {"code": METHOD_NOT_FOUND, "message": f"Method not found: {method}"}}
    if params.get("name") not in tools:
        return {"error": {"code": INVALID_PARAMS, "message": f"Unknown tool: {params.get('name')}"}}
    return {"result": called(tools, params)}


def main(path: str) -> None:
    """Serve until the input ends."""
    wire = sys.stdout
    sys.stdout = sys.stderr  # what the script prints must not get among the messages
    tools = functions(path)
    for line in sys.stdin:
        message = json.loads(line)
        if "method" in message and "id" in message:
            told = answer(tools, message["method"], message.get("params") or {})
            wire.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **told}, ensure_ascii=False) + "\n")
            wire.flush()


if __name__ == "__main__":
    for stream in (sys.stdin, sys.stdout):
        stream.reconfigure(encoding="utf-8")  # type: ignore[union-attr] # the usual streams can
    main(sys.argv[1])
