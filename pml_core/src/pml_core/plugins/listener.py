"""Serve clients at an address: by which transport, with what plugins serve besides, and only with every guard there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pml_catalog.exposure import DEFAULT_ENDPOINT
from pml_hookspecs import Endpoint, SharedRoute, TransportError
from pml_kit.errors import OperatorError
from pml_mcp.clients.listener import Ends, listen
from pml_mcp.wire.schemes import PRIVATE, scheme_of

from .registry import HOOK_GROUP, Record, State

if TYPE_CHECKING:
    from pml_hookspecs import Accept, Transport

    from .assembly import Assembly
    from .supervisor import Supervisor

API = "api"
"""Where routes are mounted that plugins share."""
MISSING = (State.INCOMPATIBLE, State.FAILED)


def check_complete(records: Iterable[Record], address: str, closed: Mapping[str, str]) -> None:
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
    ends: Ends,
) -> None:
    """Serve clients at ``address`` until there can be no more of them.

    Args:
        accept: Begins with a client.
        started: Called with the bound address once clients can connect.
        assembly: Knows the plugins, and what they serve besides MCP.
        supervisor: Knows which of them failed.
        transport: Gives the driver for addresses of a scheme.
        ends: What happens before the listener is stopped.

    Raises:
        OperatorError: No transport serves such an address, or a plugin is missing that may guard it.
    """
    scheme = scheme_of(address)
    try:
        check_complete(assembly.records, address, supervisor.closed)
        driver = transport(scheme)
        assembly.check_driver("transport", scheme, driver, "listener")
        routes = {} if scheme == PRIVATE else _routes(assembly, supervisor)
        await listen(driver, Endpoint(name=DEFAULT_ENDPOINT, address=address), accept, started, routes, ends)
    except (NotImplementedError, TransportError, ValueError) as exc:
        raise OperatorError(f"cannot serve clients at {address!r}: {exc}") from exc


def _routes(assembly: Assembly, supervisor: Supervisor) -> dict[str, list[Any]]:
    """What plugins serve besides MCP, by where it is mounted; who serves no routes is spared what they import."""
    routes: dict[str, list[Any]] = {}
    for plugin, route in assembly.gather("pml_routes", supervisor.fault):
        where, one = (API, route.route) if isinstance(route, SharedRoute) else (plugin, route)
        routes.setdefault(where, []).append(one)
    return routes
