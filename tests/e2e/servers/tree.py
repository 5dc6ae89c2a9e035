"""A server that does not come alone: what ``npx``, ``uvx`` and careless servers leave below themselves.

    python tree.py PIDS SHAPE
    python tree.py PIDS wrapper COMMAND...

Each process leaves a file ``<process id>-<what it is>`` in the folder PIDS once it is what it is.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

FOREVER_S = 3600
SHAPES = ("plain", "deaf", "session", "daemon", "deaf-daemon")


def note(pids: str, what: str) -> None:
    """Leave the file."""
    (Path(pids) / f"{os.getpid()}-{what}").touch()


def ignore_signals() -> None:
    """Go on whatever one is asked."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)


def detach() -> None:
    """Become a daemon, as by the book: fork, a session of one's own, fork again, let go of all streams."""
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)


def child(pids: str, shape: str) -> None:
    """What the server starts: sleeps for ever."""
    if shape == "session":
        os.setsid()
    if shape.endswith("daemon"):
        detach()
    if shape.startswith("deaf"):
        ignore_signals()
    note(pids, f"{shape}-child")
    time.sleep(FOREVER_S)


def serve(pids: str, shape: str) -> None:
    """An MCP server without tools."""
    if shape == "deaf":
        ignore_signals()
    started = subprocess.Popen([sys.executable, "-I", "-S", __file__, pids, f"{shape}/child"])
    if shape.endswith("daemon"):
        started.wait()
    note(pids, f"{shape}-server")
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **respond(message)}) + "\n")
            sys.stdout.flush()
    if shape == "deaf":
        time.sleep(FOREVER_S)


def respond(message: dict) -> dict:
    """The result or the error for one request."""
    if message["method"] == "initialize":
        about = {"name": "tree", "version": "1"}
        return {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}}
    if message["method"] == "tools/list":
        return {"result": {"tools": []}}
    return {"error": {"code": -32601, "message": f"Method not found: {message['method']}"}}


def wrap(pids: str, command: list[str]) -> None:
    """As Node does for ``npx``: start the program on the same streams, and wait for it."""
    program = subprocess.Popen(command)
    note(pids, "wrapper")
    sys.exit(program.wait())


if __name__ == "__main__":
    folder, what, *rest = sys.argv[1:]
    if what == "wrapper":
        wrap(folder, rest)
    elif what.endswith("/child"):
        child(folder, what.removesuffix("/child"))
    else:
        serve(folder, what)
