"""Scripted stdio servers: small programs of the standard library that do on request what real servers do by accident.

``python -I -S servers.py SCRIPT`` speaks JSON-RPC lines on its standard input and output. Scripts:

``obliging``
    Does what the method of a request says, see :data:`METHODS`, and stops when its input ends.
``stubborn``
    Like it, but goes on when its input ends, and ignores SIGTERM; so does the child of ``spawn``.
``broken``
    Writes a line to standard error and exits with code 3 at once.
``listener MODULE CLASS FILE``
    Not of the standard library alone: serves one client with a transport class, on its ``stdio:`` listener.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

STUBBORN = "stubborn"
SLEEPER = "sleeper"
BROKEN_CODE = 3
BROKEN_WORDS = "no configuration found"
FOREVER_S = 3600.0


def command(script: str, *arguments: str) -> list[str]:
    """The command line that runs a script."""
    # -P, where the standard library is not enough: this folder's modules must not shadow others.
    flags = ["-P"] if script == "listener" else ["-I", "-S"]
    return [sys.executable, *flags, os.path.abspath(__file__), script, *arguments]  # noqa: PTH100 - pathlib is slow to import


class Server:
    """What one server process knows."""

    def __init__(self, script: str) -> None:
        """Play ``script``."""
        self.script = script
        self.seen: list[Any] = []
        """Every message received."""
        self.held: list[dict[str, Any]] = []
        """Requests that are waiting for others, or for ``release``."""
        self.asked: dict[Any, Any] = {}
        """Requests to the client, by their id: the id of the request that made us ask."""

    def write(self, data: bytes) -> None:
        """Write all of ``data``."""
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]

    def send(self, message: dict[str, Any]) -> None:
        """Send one message."""
        line = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False, separators=(",", ":"))
        self.write(line.encode() + b"\n")

    def answer(self, request: dict[str, Any], result: Any) -> None:
        """Answer a request."""
        self.send({"id": request["id"], "result": result})

    def received(self, message: dict[str, Any]) -> None:
        """Do as the message says."""
        self.seen.append(message)
        if "method" in message:
            if "id" in message:
                METHODS.get(message["method"], unknown)(self, message, message.get("params") or {})
        elif (asker := self.asked.pop(message["id"], None)) is not None:
            self.send({"id": asker, "result": {"answer": message}})


def echo(server: Server, request: dict[str, Any], params: dict[str, Any]) -> None:
    """Answer with the params."""
    server.answer(request, params)


def refuse(server: Server, request: dict[str, Any], params: dict[str, Any]) -> None:
    """Answer with the error ``params``."""
    server.send({"id": request["id"], "error": params})


def gather(server: Server, request: dict[str, Any], params: dict[str, Any]) -> None:
    """Wait for ``count`` such requests; then answer each with its params, the last first."""
    server.held.append(request)
    if len(server.held) == params["count"]:
        while server.held:
            held = server.held.pop()
            server.answer(held, held["params"])


def stack(server: Server, request: dict[str, Any], params: dict[str, Any]) -> None:
    """Wait for ``count`` such requests; then answer the one with the highest ``n``, and another at each ``unstack``."""
    server.held.append(request)
    if len(server.held) == params["count"]:
        answer_highest(server)


def unstack(server: Server, request: dict[str, Any], params: dict[str, Any]) -> None:
    """Answer the one with the highest ``n`` of those that ``stack`` has left waiting, then this."""
    answer_highest(server)
    server.answer(request, {})


def answer_highest(server: Server) -> None:
    """Answer the one with the highest ``n`` of those that wait, if any, with its params."""
    server.held.sort(key=lambda request: int(request["params"]["n"]))
    if server.held:
        highest = server.held.pop()
        server.answer(highest, highest["params"])


def hold(server: Server, request: dict[str, Any], params: dict[str, Any]) -> None:
    """Do not answer until ``release``."""
    server.held.append(request)


def release(server: Server, request: dict[str, Any], params: dict[str, Any]) -> None:
    """Answer what ``hold`` held, then this, with their number."""
    count = len(server.held)
    while server.held:
        server.answer(server.held.pop(0), {"late": True})
    server.answer(request, {"released": count})


def seen(server: Server, request: dict[str, Any], params: dict[str, Any]) -> None:
    """Answer with every message received so far."""
    server.answer(request, {"messages": server.seen})


def say(server: Server, request: dict[str, Any], params: dict[str, Any]) -> None:
    """Write ``text``, each character one byte, with ``%ID%`` standing for the request's id. Answer nothing else."""
    text = params["text"].replace("%ID%", str(request["id"]))
    server.write(text.encode("latin-1"))


def pieces(server: Server, request: dict[str, Any], params: dict[str, Any]) -> None:
    """Answer with the params, in writes of one byte each."""
    line = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": params}, ensure_ascii=False) + "\n"
    for byte in line.encode():
        server.write(bytes([byte]))


def big(server: Server, request: dict[str, Any], params: dict[str, Any]) -> None:
    """Answer with ``text`` of ``bytes`` bytes, and with the ``length`` of the text received."""
    server.answer(request, {"text": "x" * params["bytes"], "length": len(params.get("text", ""))})


def tell(server: Server, request: dict[str, Any], params: dict[str, Any]) -> None:
    """Send ``count`` notifications, numbered from 0, then answer."""
    for number in range(params["count"]):
        server.send({"method": "notifications/count", "params": {"number": number}})
    server.answer(request, {})


def ask(server: Server, request: dict[str, Any], params: dict[str, Any]) -> None:
    """Send the client the request ``message``; answer with what it answers."""
    server.asked[params["message"]["id"]] = request["id"]
    server.send(params["message"])


def ask_in_vain(server: Server, request: dict[str, Any], params: dict[str, Any]) -> None:
    """Send the client the request ``message``, and answer at once."""
    server.send(params["message"])
    server.answer(request, {})


def take_back(server: Server, request: dict[str, Any], params: dict[str, Any]) -> None:
    """Take a request to the client back, by its ``id``, and answer at once."""
    server.send({"method": "notifications/cancelled", "params": {"requestId": params["id"]}})
    server.answer(request, {})


def complain(server: Server, request: dict[str, Any], params: dict[str, Any]) -> None:
    """Write ``bytes`` bytes to standard error, in lines unless ``endless``, then answer."""
    line = b"complaint " * 9 + (b" " if params.get("endless") else b"\n")
    for _ in range(params["bytes"] // len(line)):
        os.write(2, line)
    server.answer(request, {})


def leave(server: Server, request: dict[str, Any], params: dict[str, Any]) -> None:
    """Write ``words`` to standard error and exit with ``code``, without an answer."""
    os.write(2, params.get("words", "").encode())
    os._exit(params["code"])


def kill(server: Server, request: dict[str, Any], params: dict[str, Any]) -> None:
    """End by SIGKILL, without an answer."""
    os.kill(os.getpid(), signal.SIGKILL)


def close_output(server: Server, request: dict[str, Any], params: dict[str, Any]) -> None:
    """Close standard output, and live on without an answer."""
    os.close(1)


def close_input(server: Server, request: dict[str, Any], params: dict[str, Any]) -> None:
    """Answer, and close standard input, but live on."""
    os.close(0)
    server.answer(request, {})
    time.sleep(FOREVER_S)


def deafen(server: Server, request: dict[str, Any], params: dict[str, Any]) -> None:
    """Answer, and read nothing any more."""
    server.answer(request, {})
    time.sleep(FOREVER_S)


def spawn(server: Server, request: dict[str, Any], params: dict[str, Any]) -> None:
    """Start a child that lives on; answer with the process ids of both."""
    ready, ready_write = os.pipe()
    os.set_inheritable(ready_write, True)
    arguments = [*command(SLEEPER), server.script, str(ready_write)]
    child = os.posix_spawn(sys.executable, arguments, os.environ)
    os.close(ready_write)
    os.read(ready, 1)
    server.answer(request, {"pid": os.getpid(), "child": child})


def describe(server: Server, request: dict[str, Any], params: dict[str, Any]) -> None:
    """Answer with the process id, the folder, the environment and the arguments."""
    server.answer(request, {"pid": os.getpid(), "cwd": os.getcwd(), "env": dict(os.environ)})  # noqa: PTH109


def unknown(server: Server, request: dict[str, Any], params: dict[str, Any]) -> None:
    """Answer that there is no such method."""
    server.send({"id": request["id"], "error": {"code": -32601, "message": f"no method {request['method']}"}})


_PLAIN = (echo, refuse, gather, stack, unstack, hold, release, seen, say, pieces, big, describe)
_CALLING = (tell, ask, ask_in_vain, take_back)
_MISBEHAVING = (complain, leave, kill, close_output, close_input, deafen, spawn)
METHODS = {function.__name__: function for function in (*_PLAIN, *_CALLING, *_MISBEHAVING)} | {"initialize": hold}
"""What a request may ask for: JSON-RPC, not MCP."""


def sleep_on(script: str, ready: int) -> None:
    """What ``spawn`` starts."""
    if script == STUBBORN:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(ready, b"!")
    time.sleep(FOREVER_S)


def serve(script: str) -> None:
    """Read lines to the end of the input."""
    if script == STUBBORN:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    server = Server(script)
    for line in sys.stdin.buffer:
        server.received(json.loads(line))
    if script == STUBBORN:
        time.sleep(FOREVER_S)


def load(module: str, name: str, path: str) -> Any:
    """The class ``name`` of a module, which may be a file that cannot be imported by its name."""
    import importlib
    import importlib.util

    try:
        found = importlib.import_module(module)
    except ImportError:
        spec = importlib.util.spec_from_file_location(module, path)
        if spec is None or spec.loader is None:
            raise
        found = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
    return getattr(found, name)


def listen(module: str, name: str, path: str) -> None:
    """Serve with a transport class: ``events`` answers what happened in which order, ``ask`` asks the client."""
    import asyncio

    from pml_hookspecs import Endpoint

    transport_type = load(module, name, path)
    settings_type = getattr(transport_type, "settings_type", None)
    transport = transport_type(settings_type() if settings_type else None, None)
    events: list[str] = []
    links: list[Any] = []

    class Handler:
        async def request(self, method: str, params: Any, origin: Any) -> Any:
            print("a stray print")  # noqa: T201 - must not reach the client
            events.append(f"request {method}")
            if method == "ask":
                return await links[0].request(params["method"], params["params"], timeout_s=5)
            return {"events": events} if method == "events" else params

        def notification(self, method: str, params: Any) -> None:
            events.append(f"notification {method}")

        def closed(self, error: Exception | None) -> None:
            events.append("closed")

    def accept(link: Any, peer: Any) -> Handler:
        links.append(link)
        events.append("accepted")
        return Handler()

    endpoint = Endpoint(name="default", address="stdio:")
    asyncio.run(transport.serve(endpoint, accept, started=lambda address: events.append(f"started {address}")))


def main(script: str, *arguments: str) -> None:
    """Run a script."""
    if script == "broken":
        os.write(2, BROKEN_WORDS.encode() + b"\n")
        sys.exit(BROKEN_CODE)
    elif script == SLEEPER:
        sleep_on(arguments[0], int(arguments[1]))
    elif script == "listener":
        listen(*arguments)
    else:
        serve(script)


if __name__ == "__main__":
    main(*sys.argv[1:])
