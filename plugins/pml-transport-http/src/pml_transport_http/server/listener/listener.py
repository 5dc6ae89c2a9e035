"""The upstream direction: clients that reach the gateway over HTTP."""

from __future__ import annotations

import asyncio
import math
import socket
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pml_hookspecs import TransportError, UnauthenticatedError
from pml_kit.cleanup import finish_despite_cancel
from pml_kit.offers import ACCESS, METRICS_PAGE, PROTECTED_RESOURCE, READINESS, required

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import uvicorn

    from pml_hookspecs import Accept, Endpoint, Services
    from pml_transport_http.logins import ListenerLogins
    from pml_transport_http.server.app import Application
    from pml_transport_http.server.callers import Identify
    from pml_transport_http.settings import Settings

    from .acceptor import Acceptor
    from .connections import Connections
    from .wire import Protocol

ARRIVAL_S = 0.5
"""Longest that requests are waited for whose connections were there before the gateway stopped listening [s]."""
FLUSH_S = 1.0
"""Least time that clients get to take what was written for them."""
POLL_S = 0.005
BEGIN_TURNS = 50
"""Turns of the loop that a request which has just been read gets until it counts as under way."""


async def serve(
    endpoint: Endpoint,
    accept: Accept,
    started: Callable[[str], None],
    routes: Mapping[str, Sequence[Any]],
    settings: Settings,
    services: Services | None,
    logins: ListenerLogins | None,
    log: Any,
) -> None:
    """Serve until cancelled, as :class:`pml_hookspecs.Transport` says."""
    from pml_transport_http.server.app import Application, Surroundings
    from pml_transport_http.server.callers import Callers
    from pml_transport_http.server.gateways.peers import Peers, reachable_at
    from pml_transport_http.server.security import Guard, check_binding

    from .acceptor import Acceptor
    from .connections import Connections

    around = Surroundings()
    if services is not None:
        access, protected = required(services, ACCESS), services.find(PROTECTED_RESOURCE)
        around = Surroundings(access, protected, services.find(READINESS), services.find(METRICS_PAGE), logins)
    identify = None if around.access is None else around.access.identify
    host, port = place(endpoint)
    check_binding(host, settings, required=await _required(identify))
    with _listen(host, port) as listening:
        host, port = listening.getsockname()[:2]
        peers = Peers(services, settings.peer_url or reachable_at(host, port), log)
        guard = Guard(settings, host, port, peers)
        callers = Callers(settings, identify, log, logins and logins.subjects)
        application = Application(accept, settings, guard, callers, routes, log, around)
        connections = Connections(settings, log)
        server = _server(application, settings)
        acceptor = Acceptor(listening, partial(_protocol, server, settings, connections), connections, log)
        try:
            await peers.begin()
            started(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
            await asyncio.get_running_loop().create_future()
        finally:
            stopping = _stop(server, acceptor, connections, application, settings.drain_s)
            await finish_despite_cancel(stopping, name="stop the HTTP listener")
            await finish_despite_cancel(peers.end(), name="leave the other gateways")
            connections.close()


async def _required(identify: Identify | None) -> bool:
    """Whether plugins let nobody in without a key."""
    if identify is None:
        return False
    try:
        await identify(None)
    except UnauthenticatedError:
        return True
    return False


def place(endpoint: Endpoint) -> tuple[str, int]:
    """Host and port to listen on.

    Raises:
        ValueError: The address or the options are not understood.
    """
    name = f"listener {endpoint.name!r}"
    if endpoint.options:
        unknown = ", ".join(map(repr, endpoint.options))
        raise ValueError(f"{name}: an HTTP listener has no options; remove {unknown} (see [plugins.http])")
    parts = urlsplit(endpoint.address)
    if parts.scheme != "http":
        raise ValueError(f"{name}: its address must begin with http://; for https put a reverse proxy in front of it")
    try:
        port = parts.port
    except ValueError:
        port = None
    if not parts.hostname or port is None or parts.path.strip("/") or parts.query or parts.fragment or parts.username:
        raise ValueError(
            f"{name}: its address must be http://HOST:PORT and nothing more, such as http://127.0.0.1:8808, "
            f"not {endpoint.address!r}; clients find MCP at /mcp there"
        )
    return parts.hostname, port


def _listen(host: str, port: int) -> socket.socket:
    where = "127.0.0.1" if host == "localhost" else host
    listening = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(where, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        if listening is not None:
            listening.close()
        reason = error.strerror or str(error)
        raise TransportError(f"cannot listen on {host} port {port}: {reason}", retryable=True) from None
    return listening


def _server(application: Application, settings: Settings) -> uvicorn.Server:
    """What the protocol needs of the server: its configuration and state. Connections come from the acceptor."""
    import uvicorn

    config = uvicorn.Config(
        application,
        interface="asgi3",
        loop="none",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        server_header=False,
        date_header=False,
        timeout_keep_alive=math.ceil(settings.keep_alive_s),
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    return server


def _protocol(server: uvicorn.Server, settings: Settings, connections: Connections) -> Protocol:
    from .wire import Protocol

    config, state = server.config, server.server_state
    return Protocol(settings, connections, config=config, server_state=state, app_state=server.lifespan.state)


async def _stop(
    server: uvicorn.Server, acceptor: Acceptor, connections: Connections, application: Application, drain_s: float
) -> None:
    """End without a request that was sent and is not answered, as far as ``drain_s`` seconds go."""
    loop = asyncio.get_running_loop()
    until = loop.time() + drain_s
    state = server.server_state
    application.ends = True
    connections.end_with_answers()
    await acceptor.close()
    # What comes now was sent before its sender could know, and a proxy may not send it to another gateway.
    await _until(lambda: not connections.expect_requests(), min(drain_s, ARRIVAL_S))
    for _ in range(BEGIN_TURNS):
        await asyncio.sleep(0)
    for connection in tuple(state.connections):
        connection.shutdown()
    await application.close(max(until - loop.time(), 0))
    for connection in tuple(state.connections):
        connection.shutdown()
    await _until(lambda: not (state.connections or state.tasks), max(until - loop.time(), FLUSH_S))
    for connection in tuple(state.connections):
        # Its client does not read what is left for it.
        connection.transport.abort()
    await _until(lambda: not (state.connections or state.tasks), FLUSH_S)


async def _until(is_so: Callable[[], bool], limit_s: float) -> None:
    """Wait for what nothing tells of: that the server is done with its connections and requests, say.

    In turns, not by the clock: where the process itself stood still, nobody has had time to answer.
    """
    for _ in range(math.ceil(limit_s / POLL_S)):
        if is_so():
            return
        await asyncio.sleep(POLL_S)
