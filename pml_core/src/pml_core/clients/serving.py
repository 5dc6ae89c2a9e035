"""Serve clients, and end in good order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pml_core.errors import OperatorError
from pml_core.plugins.registry import HOOK_GROUP, Record, State
from pml_core.settings.config import DEFAULT_ENDPOINT
from pml_core.settings.endpoints import scheme_of
from pml_hookspecs import Endpoint, TransportError

if TYPE_CHECKING:
    from pml_core.mcp.client import ConnectedClient
    from pml_core.plugins.assembly import Assembly
    from pml_core.plugins.supervisor import Supervisor
    from pml_hookspecs import Accept, Transport

LAST_WORDS_S = 0.5
"""Longest that streams of changes get to end before their listener is stopped [s]."""
POLL_S = 0.005
PRIVATE = "stdio"
"""Scheme of listeners that only whoever started the gateway can reach."""
API = "api"
"""Where routes are mounted that plugins share."""
MISSING = (State.INCOMPATIBLE, State.FAILED)
NO_FAULTS: Mapping[str, str] = MappingProxyType({})


def check_complete(records: Iterable[Record], address: str, closed: Mapping[str, str] = NO_FAULTS) -> None:
    """See that no installed hook plugin is missing where others can reach the gateway.

    What does not load cannot say what it would have guarded: it may be the one that asks for keys. ``closed`` are the
    guards that loaded and failed, and why: lists and routes, which are no tasks, would be open without them.

    Raises:
        OperatorError: One is, and nobody said that it is to be done without.
    """
    if scheme_of(address) == PRIVATE:
        return
    missing = [r for r in records if r.group == HOOK_GROUP and (r.state in MISSING or r.name in closed)]
    if not missing:
        return
    first, names = missing[0], sorted({record.name for record in missing})
    problem = first.problem or closed[first.name]
    more = f"; the same holds for {', '.join(names)}" if len(names) > 1 else ""
    raise OperatorError(
        f"{first.label} cannot be used: {problem}; it may be what keeps others out, so nothing is served at "
        f"{address!r} without it{more}",
        f"{first.remedy or first.mend} To do without: [gateway] block = {json.dumps(names)}.",
    )


async def serve(
    address: str,
    accept: Accept,
    started: Callable[[str], None],
    assembly: Assembly,
    supervisor: Supervisor,
    transport: Callable[[str], Transport],
    drain: Callable[[], Coroutine[Any, Any, None]],
    clients: Iterable[ConnectedClient],
) -> None:
    """Serve clients at ``address`` until there can be no more of them.

    Args:
        accept: Begins with a client.
        started: Called with the bound address once clients can connect.
        assembly: Knows the plugins, and what they serve besides MCP.
        supervisor: Knows which of them failed.
        transport: Gives the driver for addresses of a scheme.
        drain: Lets what goes on in the background come to an end, within its limit.
        clients: Those that are connected, whenever it is asked.

    Raises:
        OperatorError: No transport serves such an address, or a plugin is missing that may guard it.
    """
    try:
        check_complete(assembly.records, address, supervisor.closed)
        driver = transport(scheme_of(address))
        assembly.check_driver("transport", scheme_of(address), driver, "listener")
        routes = {} if scheme_of(address) == PRIVATE else _routes(assembly, supervisor)
        endpoint = Endpoint(name=DEFAULT_ENDPOINT, address=address)
        listening = asyncio.get_running_loop().create_task(
            driver.serve(endpoint, accept, started=started, routes=routes), name=f"listener:{address}"
        )
        try:
            await asyncio.wait((listening,))
        finally:
            draining = asyncio.get_running_loop().create_task(drain(), name="drain")
            try:
                await _end_streams(clients)
            finally:
                listening.cancel()
                await asyncio.wait((listening, draining))
        listening.result()
    except (NotImplementedError, TransportError, ValueError) as exc:
        raise OperatorError(f"cannot serve clients at {address!r}: {exc}") from exc


def _routes(assembly: Assembly, supervisor: Supervisor) -> dict[str, list[Any]]:
    """What plugins serve besides MCP, by plugin; who serves no routes is spared what they import."""
    routes: dict[str, list[Any]] = {}
    for plugin, route in assembly.gather("pml_routes", supervisor.fault):
        routes.setdefault(plugin, []).append(route)
    if shared := [route for _, route in assembly.gather("pml_api_routes", supervisor.fault)]:
        routes[API] = shared
    return routes


async def _end_streams(clients: Iterable[ConnectedClient]) -> None:
    """Streams of changes end with a result, which their listener, once it stops, would no longer wait for."""
    streams = [client.listeners for client in clients if len(client.listeners)]
    for listeners in streams:
        listeners.end()
    until_s = asyncio.get_running_loop().time() + LAST_WORDS_S
    while any(map(len, streams)) and asyncio.get_running_loop().time() < until_s:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(POLL_S)
