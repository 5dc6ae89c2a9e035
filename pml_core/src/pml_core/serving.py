"""Serve clients, and end in good order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Endpoint, TransportError

from .config import DEFAULT_ENDPOINT
from .endpoints import scheme_of
from .errors import OperatorError

if TYPE_CHECKING:
    from .gateway import Gateway

LAST_WORDS_S = 0.5
"""Longest that streams of changes get to end before their listener is stopped [s]."""
POLL_S = 0.005


async def serve(gateway: Gateway, address: str, started: Callable[[str], None], routes: dict[str, list[Any]]) -> None:
    """Serve clients at ``address`` until there can be no more of them.

    Raises:
        OperatorError: No transport serves such an address.
    """
    try:
        transport = gateway.transport(scheme_of(address))
        endpoint = Endpoint(name=DEFAULT_ENDPOINT, address=address)
        listening = asyncio.get_running_loop().create_task(
            transport.serve(endpoint, gateway.accept, started=started, routes=routes), name=f"listener:{address}"
        )
        try:
            await asyncio.wait((listening,))
        finally:
            try:
                await _end_streams(gateway)
            finally:
                listening.cancel()
                await asyncio.wait((listening,))
        listening.result()
    except (NotImplementedError, TransportError, ValueError) as exc:
        raise OperatorError(f"cannot serve clients at {address!r}: {exc}") from exc


async def _end_streams(gateway: Gateway) -> None:
    """Streams of changes end with a result, which their listener, once it stops, would no longer wait for."""
    streams = [conversation.listeners for conversation in gateway.conversations if len(conversation.listeners)]
    for listeners in streams:
        listeners.end()
    until_s = asyncio.get_running_loop().time() + LAST_WORDS_S
    while any(map(len, streams)) and asyncio.get_running_loop().time() < until_s:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(POLL_S)
