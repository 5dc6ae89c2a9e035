"""From a server's table to where its transport finds it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Endpoint, TransportError

from . import client_configs

if TYPE_CHECKING:
    from .config import ServerSettings


def endpoint_of(name: str, server: ServerSettings, environment: Mapping[str, str]) -> Endpoint:
    """Where and how to reach a server, ``${NAME}`` replaced.

    Raises:
        TransportError: A variable that is referred to is not set.
    """
    missing: list[str] = []

    def expand(text: str) -> str:
        value, unset = client_configs.expand(text, environment)
        missing.extend(unset)
        return value

    if server.command:
        address = "stdio:" + shlex.join([expand(server.command), *(expand(a) for a in server.args)])
    else:
        address = expand(server.url or server.address)
    options: dict[str, Any] = client_configs.expand_all(server.options, environment, missing)
    if server.cwd is not None:
        options["cwd"] = expand(server.cwd)
    if server.inherit_env:
        options["inherit_env"] = list(server.inherit_env)
    if server.headers:
        options["headers"] = {key: expand(value) for key, value in server.headers.items()}
    env = {key: expand(value) for key, value in server.env.items()}
    if missing:
        unset = ", ".join(sorted(set(missing)))
        raise TransportError(f"environment variable {unset} is not set; [servers.{name}] refers to it", retryable=False)
    return Endpoint(name=name, address=address, env=env, options=options)


def scheme_of(address: str) -> str:
    """The transport that an address names; ``https`` is read as ``http``."""
    scheme = address.partition(":")[0].lower()
    return "http" if scheme == "https" else scheme
