"""A server that pays what it is told, byte by byte, and floods its client when asked to; standard library only."""

from __future__ import annotations

import json
import sys
from pathlib import Path

TOOLS = ("pay", "flood_questions", "flood_notes", "long_note")


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def flood(name, many):
    for number in range(many):
        if name == "flood_questions":
            asked = {"message": f"question {number}", "requestedSchema": {"type": "object", "properties": {}}}
            send({"id": f"q{number}", "method": "elicitation/create", "params": asked})
        else:
            size = 1 if name == "flood_notes" else many
            send({"method": "notifications/message", "params": {"level": "error", "data": "x" * size}})
            if name == "long_note":
                return


def answer(line, message):
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}, "logging": {}},
            "serverInfo": {"name": "walls", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
    if method == "tools/call":
        name, arguments = params["name"], params.get("arguments") or {}
        if name == "pay":
            with Path(sys.argv[1]).open("a", encoding="utf-8") as paid:
                paid.write(line)
        else:
            flood(name, arguments["many"])
        return {"content": [{"type": "text", "text": f"{name} done"}]}
    return {}


def main():
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            send({"id": message["id"], "result": answer(line, message)})


main()
