"""A server that pays, and asks before it does when it is told to; standard library only."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}, "wait_s": {"type": "number"}}}
FORM = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
lock = threading.Lock()
waiting = {}


def send(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def note(text):
    with Path(sys.argv[1]).open("a", encoding="utf-8") as paid:
        paid.write(f"{text}\n")


def kill_gateway():
    """SIGKILL to the nearest process above that serves: what a call does that a gateway does not survive."""
    pid = os.getppid()
    while b"serve" not in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(pid, signal.SIGKILL)


def call(id, name, arguments):
    to = arguments.get("to", "")
    said = f"{name} {to}"
    if name == "ask":
        note(f"asked-{to}")
        question, answered = f"question-{id}", threading.Event()
        waiting[question] = [answered, None]
        asked = {"message": f"Pay {to}?", "requestedSchema": FORM}
        send({"id": question, "method": "elicitation/create", "params": asked})
        answered.wait()
        said = json.dumps(waiting.pop(question)[1])
    elif name == "poison":
        note(f"poison-{to}")
        kill_gateway()
    else:
        time.sleep(arguments.get("wait_s", 0))
        note(to)
    send({"id": id, "result": {"content": [{"type": "text", "text": said}]}})


def answer(message):
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "asking", "version": "1"},
        }
    return (
        {"tools": [{"name": name, "inputSchema": SCHEMA} for name in ("pay", "ask", "poison")]}
        if "list" in method
        else {}
    )


def main():
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "tools/call":
            params = message["params"]
            arguments = (message["id"], params["name"], params.get("arguments") or {})
            threading.Thread(target=call, args=arguments, daemon=True).start()
        elif "method" in message and "id" in message:
            send({"id": message["id"], "result": answer(message)})
        elif message.get("id") in waiting:
            found = waiting[message["id"]]
            found[1] = message.get("result") or message.get("error")
            found[0].set()


main()
