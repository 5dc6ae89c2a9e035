"""Both ends of a connection under test: a handler that keeps what it is told, and the processes at the other end."""

from __future__ import annotations

import asyncio
import inspect
import os
import shlex
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pml_hookspecs import Link, Origin, RawObject, RpcError, Transport, TransportError

from . import servers

SOON_S = 20.0
"""Longest that anything here may take on a busy machine [s]."""
NO_SUCH_COMMAND = "stdio:pml-no-such-command --flag"
START_S = 30.0
"""Longest that a Python program with the transport in it may take to start, and then to answer [s]."""
POLL_S = 0.02
LONG_S = 60.0
"""Never reached unless something is wrong [s]."""


def over_stdio(script: str) -> str:
    """The address of a script of :mod:`pml_testing.servers`."""
    return "stdio:" + shlex.join(servers.command(script))


def listener_over_stdio(transport: Transport) -> str:
    """The address of a process in which a transport like this one serves."""
    made = type(transport)
    module, name, path = made.__module__, made.__qualname__, inspect.getfile(made)
    return "stdio:" + shlex.join(servers.command("listener", module, name, path))


class Recorder:
    """A handler that keeps what it is told, and answers according to the method."""

    def __init__(self) -> None:
        self.notifications: list[tuple[str, Mapping[str, Any]]] = []
        self.closings: list[TransportError | None] = []
        self.waiting = asyncio.Event()
        """Set when ``wait`` is being answered, which it never is."""
        self.cancelled = asyncio.Event()
        """Set when ``wait`` was cancelled."""

    async def request(self, method: str, params: RawObject, origin: Origin) -> Mapping[str, Any]:
        if method == "refuse":
            raise RpcError(-32001, "not today", {"why": "a test"})
        if method == "stumble":
            raise KeyError("an internal detail")
        if method == "wait":
            self.waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()
        return {"method": method, "params": params}

    def notification(self, method: str, params: RawObject) -> None:
        self.notifications.append((method, dict(params)))

    def closed(self, error: TransportError | None) -> None:
        self.closings.append(error)


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return not Path("/proc/self").exists()


@contextmanager
def mourned(pids: Mapping[str, int]) -> Iterator[None]:
    """Kill what a wrong transport leaves behind."""
    try:
        yield
    finally:
        for pid in pids.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


async def ended(*pids: int) -> bool:
    """Whether processes end soon."""
    try:
        async with asyncio.timeout(SOON_S):
            while any(map(alive, pids)):  # noqa: ASYNC110 - nothing tells of the end of somebody else's child
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        return False
    return True


async def seen_of(link: Link, method: str) -> list[Mapping[str, Any]]:
    """Params of the messages with ``method`` that the server got so far."""
    answer = await link.request("seen", {}, timeout_s=LONG_S)
    return [message.get("params", {}) for message in answer["messages"] if message.get("method") == method]


async def come(link: Link, method: str, count: int = 1) -> list[Mapping[str, Any]]:
    """Like :func:`seen_of`, once ``count`` of them are there; what there is when they do not come soon."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SOON_S
    while True:
        seen = await seen_of(link, method)
        if len(seen) >= count or loop.time() > deadline:
            return seen
        await asyncio.sleep(POLL_S)


async def told_of_the_end(link: Link, handler: Recorder) -> None:
    """Wait until a handler hears that its server is gone; where there is no lasting connection, a request finds out.

    A notification for a server that is gone is dropped.
    """
    async with asyncio.timeout(SOON_S):
        while not handler.closings:
            with suppress(TransportError):
                await link.request("echo", {}, timeout_s=LONG_S)
            await asyncio.sleep(POLL_S)
    link.notify("notifications/n", {})
