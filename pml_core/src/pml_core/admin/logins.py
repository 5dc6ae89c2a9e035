"""Logging in to a server, outside of a running gateway."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from pml_core.errors import OperatorError
from pml_core.gateway import Gateway
from pml_core.kernel.identities import by_operator
from pml_core.settings.config import Config
from pml_core.settings.endpoints import endpoint_of, scheme_of
from pml_hookspecs import AccessEvent, Endpoint, Transport, TransportError


async def log_in(config: Config, server: str, *, show: Callable[[str], None]) -> None:
    """Let a human log in to ``server``.

    Raises:
        OperatorError: There is no such server, it needs no login, or the login failed.
    """
    async with _transport_of(config, server) as (transport, endpoint, _):
        await transport.log_in(endpoint, show=show)


async def log_out(config: Config, server: str) -> None:
    """Forget what :func:`log_in` kept.

    Raises:
        OperatorError: There is no such server, or it needs no login.
    """
    async with _transport_of(config, server) as (transport, endpoint, gateway):
        gateway.assembly.load_hooks(gateway.supervisor.fault)
        gateway.gather_watchers()
        event = AccessEvent(kind="change", target="logins", code="login.deleted", details={"server": server})
        # First, because somebody who deletes might end the command before it is through.
        await gateway.access_watchers.tell(by_operator(event))
        await transport.log_out(endpoint)


@asynccontextmanager
async def _transport_of(config: Config, server: str) -> AsyncIterator[tuple[Transport, Endpoint, Gateway]]:
    """The transport that reaches a server, with the store open that it keeps tokens in."""
    settings = config.servers.get(server)
    if settings is None:
        known = ", ".join(sorted(config.servers)) or "none"
        raise OperatorError(f"there is no server {server!r}; configured: {known}")
    gateway = Gateway(config)
    try:
        endpoint = endpoint_of(server, settings, os.environ, gateway.redactor.learn)
        await gateway.open_store()
        transport = gateway.transport(scheme := scheme_of(endpoint.address))
        gateway.assembly.check_driver("transport", scheme, transport, "login")
        yield transport, endpoint, gateway
    except NotImplementedError as exc:
        raise OperatorError(f"server {server!r} needs no login: {exc}") from exc
    except (TransportError, ValueError) as exc:
        raise OperatorError(f"server {server!r}: {exc}") from exc
    finally:
        await gateway.close()
