"""From a server's table to where its transport finds it."""

from __future__ import annotations

import asyncio
import os
import shlex
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from pml_clients import client_configs
from pml_hookspecs import Endpoint, TransportError

from .server_values import Values, read_file, secrets_in, takes_time

if TYPE_CHECKING:
    from pml_mcp.server_settings import ServerSettings

Learn: TypeAlias = Callable[[Iterable[str]], None]
"""Is told what must not be shown."""


def endpoint_of(
    name: str,
    server: ServerSettings,
    environment: Mapping[str, str],
    learn_secrets: Learn = lambda _values: None,
    ended: threading.Event | None = None,
) -> Endpoint:
    """Where and how to reach a server, ``${NAME}`` replaced.

    Args:
        learn_secrets: Is told what must not be shown of that, before anybody can.
        ended: Once it is set, nobody waits for it any more.

    Raises:
        TransportError: What is referred to is not there.
    """
    missing: list[str] = []
    of_file = read_file(name, server, environment)
    values = Values({**environment, **of_file}, ended)

    def expand(text: str) -> str:
        value, unset = client_configs.expand(text, values)
        missing.extend(unset)
        return value

    if server.command:
        address = "stdio:" + shlex.join([expand(server.command), *(expand(a) for a in server.args)])
    else:
        address = expand(server.url or server.address)
    options: dict[str, Any] = client_configs.expand_all(server.options, values, missing)
    if server.cwd is not None:
        options["cwd"] = expand(server.cwd)
    if server.inherit_env:
        options["inherit_env"] = list(server.inherit_env)
    if server.headers:
        options["headers"] = {key: expand(value) for key, value in server.headers.items()}
    env = {key: expand(value) for key, value in server.env.items()}
    learn_secrets([*secrets_in(of_file), *values.secrets])
    if missing:
        raise TransportError(values.why_missing(missing, f"[servers.{name}]"), retryable=False)
    if server.command:
        env = {**of_file, **env}
    return Endpoint(name=name, address=address, env=env, options=options)


async def found_endpoint(name: str, server: ServerSettings, learn_secrets: Learn) -> Endpoint:
    """As :func:`endpoint_of`, by the environment of this process; what takes its time holds up nobody.

    Raises:
        TransportError: What is referred to is not there.
    """
    if not takes_time(server):
        return endpoint_of(name, server, os.environ, learn_secrets)
    ended = threading.Event()
    try:
        return await asyncio.to_thread(endpoint_of, name, server, os.environ, learn_secrets, ended)
    finally:
        ended.set()
