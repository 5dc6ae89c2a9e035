"""Measures own code beside the library that could do the same: docs/design/0019.

    python tests/bench/libraries.py [http|events|values|models|anyio]...

Each line is processor time of this thread, both sides in turns, median of the rounds. ``events`` needs ``httpx-sse``
and ``httpx``, which PML does not; what is not installed is reported as absent.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import httpx2
import msgspec
import uvicorn
from mcp_types import CallToolRequest, CallToolResult, ListToolsResult

from pml_hookspecs import replace
from pml_transport_http.events import Events
from pml_transport_http.http1 import Http1

ROUNDS = 7
TEXT = "x" * 200
FIELDS = "abcdefgh"


def show(what: str, sides: Mapping[str, list[float]]) -> None:
    """One line: the median of each side [µs]."""
    print(f"{what}: " + ", ".join(f"{side} {statistics.median(took) * 1e6:.2f} µs" for side, took in sides.items()))


def compare(what: str, sides: Mapping[str, Callable[[], object]], times: int) -> None:
    """Call each side so many times, in turns."""
    took: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(ROUNDS):
        for side, work in sides.items():
            began_s = time.thread_time()
            for _ in range(times):
                work()
            took[side].append((time.thread_time() - began_s) / times)
    show(what, took)


async def compare_async(what: str, sides: Mapping[str, Callable[[int], Awaitable[None]]], times: int) -> None:
    """Let each side do something so many times, in turns."""
    took: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(ROUNDS):
        for side, work in sides.items():
            began_s = time.thread_time()
            await work(times)
            took[side].append((time.thread_time() - began_s) / times)
    show(what, took)


# Connections to servers


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answers every request with the same 200 bytes."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(TEXT)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": TEXT.encode()})


async def http() -> None:
    """A POST through our connections and through the pool of httpx2; the server has a thread of its own."""
    server = uvicorn.Server(uvicorn.Config(application, port=0, log_level="error", lifespan="off"))
    serving = asyncio.create_task(asyncio.to_thread(server.run))
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.05)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=256)
    own = httpx2.AsyncClient(transport=Http1(None, 10))
    pool = httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(limits=limits))

    def posts(client: httpx2.AsyncClient, at_once: int) -> Callable[[int], Awaitable[None]]:
        async def one(times: int) -> None:
            for _ in range(times):
                (await client.post(url, content=TEXT.encode())).raise_for_status()

        async def all_of_them(times: int) -> None:
            await asyncio.gather(*(one(times // at_once) for _ in range(at_once)))

        return all_of_them

    async with own, pool:
        for at_once in (1, 64):
            sides = {"own": posts(own, at_once), "httpx2's pool": posts(pool, at_once)}
            await compare_async(f"POST, {at_once} at once", sides, 640)
    server.should_exit = True
    await serving


# Server-sent events


def events() -> None:
    """Events, as they come in pieces."""
    try:
        from httpx_sse._decoders import SSEDecoder, SSELineDecoder
    except ImportError:
        print("events: httpx-sse and httpx are absent")
        return

    def own(chunks: list[bytes]) -> int:
        read = Events(1 << 30)
        return sum(len(read.feed(chunk)) for chunk in chunks)

    def library(chunks: list[bytes]) -> int:
        lines, read = SSELineDecoder(), SSEDecoder()
        return sum(read.decode(line) is not None for chunk in chunks for line in lines.decode(chunk.decode()))

    short = [f"event: message\r\ndata: {TEXT}\r\n\r\n".encode()] * 2000
    whole = b"event: message\r\ndata: " + b"x" * 10_000_000 + b"\r\n\r\n"
    long = [whole[at : at + 65_536] for at in range(0, len(whole), 65_536)]
    for what, chunks in (("2,000 short events", short), ("one event of 10 MB", long)):
        compare(what, {"own": lambda c=chunks: own(c), "httpx-sse": lambda c=chunks: library(c)}, 1)  # type: ignore[misc]


# Values


def values() -> None:
    """An object of eight fields, of which three are left out, and a copy of it with another member."""

    def made() -> Any:
        body: dict[str, Any] = {"__annotations__": dict.fromkeys(FIELDS, object), **dict.fromkeys(FIELDS[4:])}
        return dataclasses.dataclass(frozen=True, slots=True, kw_only=True)(type("Value", (), body))

    fields = [(name, object, None) if name in FIELDS[4:] else (name, object) for name in FIELDS]
    struct = msgspec.defstruct("Value", fields, frozen=True, kw_only=True)
    kinds = {"dataclass": made(), "msgspec.Struct": struct}
    sides = {name: lambda kind=kind: kind(a=1, b=2, c=3, d=4, e=5) for name, kind in kinds.items()}  # type: ignore[misc]
    compare("a value", sides, 50_000)
    ready = {name: kind(a=1, b=2, c=3, d=4, e=5) for name, kind in kinds.items()}
    compare("a copy", {name: lambda one=one: replace(one, a=2) for name, one in ready.items()}, 50_000)  # type: ignore[misc]


# Messages


class Envelope(msgspec.Struct):
    """What a message is routed by."""

    jsonrpc: str
    id: int | str | None = None
    method: str | None = None
    params: msgspec.Raw = msgspec.Raw()


def models() -> None:
    """Messages as they are passed on, and as models of the SDK."""
    params = {"name": "echo", "arguments": {"text": TEXT}}
    request = json.dumps({"method": "tools/call", "params": params}).encode()
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    result = json.dumps({"content": [{"type": "text", "text": TEXT}]}).encode()
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    tools = [{"name": f"t{n}", "description": TEXT, "inputSchema": schema} for n in range(700)]
    listed = json.dumps({"tools": tools}).encode()
    envelope = msgspec.json.Decoder(Envelope).decode
    model = CallToolResult.model_validate_json(result)
    compare(
        "tools/call",
        {
            "the envelope": lambda: envelope(message),
            "the request as a model": lambda: CallToolRequest.model_validate_json(request),
            "the result as a model": lambda: CallToolResult.model_validate_json(result),
            "the model written": lambda: model.model_dump_json(by_alias=True, exclude_none=True),
        },
        2000,
    )
    sides = {
        "read": lambda: msgspec.json.decode(listed),
        "as models": lambda: ListToolsResult.model_validate_json(listed),
    }
    compare("700 tools", sides, 5)


# anyio


async def _nothing() -> None:
    pass


async def _tasks(times: int) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(times):
            group.create_task(_nothing())


async def _anyio_tasks(times: int) -> None:
    async with anyio.create_task_group() as group:
        for _ in range(times):
            group.start_soon(_nothing)


async def _limits(times: int) -> None:
    for _ in range(times):
        async with asyncio.timeout(10):
            await asyncio.sleep(0)


async def _anyio_limits(times: int) -> None:
    for _ in range(times):
        with anyio.fail_after(10):
            await asyncio.sleep(0)


async def _queue(times: int) -> None:
    queue: asyncio.Queue[int] = asyncio.Queue()
    for number in range(times):
        queue.put_nowait(number)
        await queue.get()


async def _anyio_queue(times: int) -> None:
    send, receive = anyio.create_memory_object_stream[int](times)
    with send, receive:
        for number in range(times):
            send.send_nowait(number)
            await receive.receive()


async def _event(times: int) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(times):
        event = asyncio.Event()
        loop.call_soon(event.set)
        await event.wait()


async def _anyio_event(times: int) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(times):
        event = anyio.Event()
        loop.call_soon(event.set)
        await event.wait()


async def structures() -> None:
    """What a call is made of, with either library."""
    await compare_async("a task in a group", {"asyncio": _tasks, "anyio": _anyio_tasks}, 3000)
    await compare_async("a time limit", {"asyncio": _limits, "anyio": _anyio_limits}, 3000)
    await compare_async("an item through a queue", {"asyncio": _queue, "anyio": _anyio_queue}, 3000)
    await compare_async("waiting for an event", {"asyncio": _event, "anyio": _anyio_event}, 3000)


PARTS: Mapping[str, Callable[[], Any]] = {
    "http": http,
    "events": events,
    "values": values,
    "models": models,
    "anyio": structures,
}


def main() -> None:
    """Run the parts that are named, or all."""
    named = sys.argv[1:] or list(PARTS)
    if unknown := [name for name in named if name not in PARTS]:
        raise SystemExit(f"{', '.join(unknown)}: no such part; there are {', '.join(PARTS)}")
    for name in named:
        found = PARTS[name]()
        if found is not None:
            asyncio.run(found)


if __name__ == "__main__":
    main()
