"""An MCP server of the standard library only, whose lists grow, and which serves more than it lists.

``unlock`` adds the tool, the resource and the prompt ``extra`` to its lists. With ``--tells`` it says so, with
``--declares`` it declared whether it would. What is called, read and got is a line of the file ``--notes``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

ANY = {"type": "object"}
KINDS = ("tools", "resources", "prompts")
NAMES = {"tools": "name", "resources": "uri", "prompts": "name"}
ITEMS = {
    "tools": lambda name: {"name": name, "inputSchema": ANY, "annotations": {"readOnlyHint": name == "extra"}},
    "resources": lambda name: {"uri": f"grow://{name}", "name": name},
    "prompts": lambda name: {"name": name},
}
SERVED = ("unlock", "extra", "unlisted", "delete_unlisted", "count")


class Server:
    """Answers one client."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.listed, self.lists = given, ["unlock", "count"], dict.fromkeys(KINDS, 0)

    def respond(self, method: str, params: dict) -> dict:
        """The result or the error for one request."""
        kind, _, verb = method.partition("/")
        if method == "initialize":
            able = {} if self.given.declares is None else {"listChanged": self.given.declares == "true"}
            about = {"name": "growing", "version": "1"}
            return {
                "result": {
                    "protocolVersion": "2025-06-18",
                    "capabilities": dict.fromkeys(KINDS, able),
                    "serverInfo": about,
                }
            }
        if verb == "list" and kind in KINDS:
            self.lists[kind] += 1
            if len(self.listed) > len(("unlock", "count")):
                time.sleep(self.given.listing)
            return {"result": {kind: [ITEMS[kind](name) for name in self.listed]}}
        if method == "resources/templates/list":
            return {"result": {"resourceTemplates": []}}
        if verb not in ("call", "read", "get"):
            return {"error": {"code": -32601, "message": f"Method not found: {method}"}}
        own = str(params.get(NAMES[kind])).removeprefix("grow://")
        with self.given.notes.open("a", encoding="utf-8") as file:
            file.write(f"{kind} {own}\n")
        if own not in SERVED:
            return {"error": {"code": -32602, "message": f"growing has no {kind[:-1]} {own}"}}
        if kind == "tools" and own == "unlock":
            self.unlock()
        return {"result": self.answer(kind, own)}

    def unlock(self) -> None:
        """List more from now on."""
        self.listed = ["unlock", "count", "extra"]
        for kind in KINDS if self.given.tells else ():
            write({"method": f"notifications/{kind}/list_changed"})

    def answer(self, kind: str, own: str) -> dict:
        """What is had for a name."""
        text = json.dumps(self.lists) if own == "count" else f"{kind} {own}"
        content = {"type": "text", "text": text}
        if kind == "resources":
            return {"contents": [{"uri": f"grow://{own}", "text": text}]}
        return {"content": [content]} if kind == "tools" else {"messages": [{"role": "user", "content": content}]}


def write(message: dict) -> None:
    """One line to the client."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Serve until the standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--declares", choices=["true", "false"])
    parser.add_argument("--tells", action="store_true")
    parser.add_argument("--listing", type=float, default=0.0, help="how long a list takes that has grown [s]")
    parser.add_argument("--notes", type=Path, default=Path(os.devnull))
    server = Server(parser.parse_args())
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            write({"id": message["id"], **server.respond(message["method"], message.get("params", {}))})


if __name__ == "__main__":
    main()
