"""A server whose list of tools is a folder, and one that grows by being called; standard library only."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

FOLDER, POLL_S = Path(sys.argv[1]), 0.05
SCHEMA = {"type": "object"}
lock = threading.Lock()
own = []


def send(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def names():
    return sorted(one.name for one in FOLDER.iterdir()) if FOLDER.exists() else []


def watch():
    seen = names()
    while True:
        time.sleep(POLL_S)
        if seen != (seen := names()):
            send({"method": "notifications/tools/list_changed"})
            send({"method": "notifications/resources/updated", "params": {"uri": "test://folder"}})


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}, "resources": {"subscribe": True}},
            "serverInfo": {"name": "listening", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": SCHEMA} for name in ["add", "grow", *names(), *own]]}
    if method == "resources/list":
        return {"resources": [{"uri": "test://folder", "name": "folder"}]}
    if method == "tools/call":
        if params["name"] == "add":
            FOLDER.mkdir(exist_ok=True)
            (FOLDER / "added").touch()
        else:
            own.append("grown")
            send({"method": "notifications/tools/list_changed"})
        return {"content": []}
    return {}


def main():
    threading.Thread(target=watch, daemon=True).start()
    for line in sys.stdin:
        message = json.loads(line)
        if "method" in message and "id" in message:
            send({"id": message["id"], "result": answer(message["method"], message.get("params") or {})})


main()
