"""One listener of clients: open until there can be no more of them, ended in good order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pml_hookspecs import Accept, Endpoint, Transport
    from pml_mcp.wire.client import ConnectedClient

LAST_WORDS_S = 0.5
"""Longest that streams of changes get to end before their listener is stopped [s]."""
POLL_S = 0.005


class Ends(NamedTuple):
    """What happens before a listener is stopped."""

    leave: Callable[[], Coroutine[Any, Any, None]]
    """Says that this gateway ends, and returns once those who choose among gateways may have heard of it."""
    drain: Callable[[], Coroutine[Any, Any, None]]
    """Lets what goes on in the background come to an end, within its limit."""
    clients: Iterable[ConnectedClient]
    """Those that are connected, whenever it is asked."""


async def listen(
    driver: Transport,
    endpoint: Endpoint,
    accept: Accept,
    started: Callable[[str], None],
    routes: Mapping[str, list[Any]],
    ends: Ends,
) -> None:
    """Serve clients at ``endpoint`` until there can be no more of them.

    Args:
        driver: Listens.
        accept: Begins with a client.
        started: Called with the bound address once clients can connect.
        routes: What is served besides MCP, by plugin.
        ends: What happens before the listener is stopped.

    Raises:
        NotImplementedError, TransportError, ValueError: The transport cannot serve such an address.
    """
    listening = asyncio.get_running_loop().create_task(
        driver.serve(endpoint, accept, started=started, routes=routes), name=f"listener:{endpoint.address}"
    )
    try:
        await asyncio.wait((listening,))
    finally:
        if not listening.done():
            with suppress(asyncio.CancelledError):  # a second signal does not wait for others to hear
                await ends.leave()
        draining = asyncio.get_running_loop().create_task(ends.drain(), name="drain")
        try:
            await _end_streams(ends.clients)
        finally:
            listening.cancel()
            await asyncio.wait((listening, draining))
    listening.result()


async def _end_streams(clients: Iterable[ConnectedClient]) -> None:
    """Streams of changes end with a result, which their listener, once it stops, would no longer wait for."""
    streams = [client.listeners for client in clients if len(client.listeners)]
    for listeners in streams:
        listeners.end()
    until_s = asyncio.get_running_loop().time() + LAST_WORDS_S
    while any(map(len, streams)) and asyncio.get_running_loop().time() < until_s:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(POLL_S)
