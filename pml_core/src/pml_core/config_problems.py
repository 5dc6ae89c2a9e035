"""What is wrong in a configuration beyond the types of its values."""

from __future__ import annotations

import re

from pml_hookspecs import GATEWAY_SERVER

from .config import DEFAULT_ENDPOINT, ServerSettings

PREFIX = re.compile(r"[A-Za-z0-9._-]{0,32}")
SERVER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def server_problems(name: str, server: ServerSettings) -> list[str]:
    """What is wrong with a server's table beyond the types of its values."""
    problems = []
    given = [key for key in ("command", "url", "address") if getattr(server, key)]
    if name == GATEWAY_SERVER:
        problems.append(f"servers.{name}: the name belongs to the gateway itself; choose another")
    elif not SERVER_NAME.fullmatch(name) or "__" in name:
        problems.append(f"servers.{name}: a name is letters, digits, '.', '-' and single '_'; choose another")
    if not given:
        problems.append(f"servers.{name}: says neither command nor url; add one of them")
    elif len(given) > 1:
        problems.append(f"servers.{name}: says {' and '.join(given)}; keep one of them")
    if server.prefix is not None and not PREFIX.fullmatch(server.prefix):
        problems.append(f"servers.{name}.prefix: letters, digits, '.', '-' and '_', or nothing; clients take no others")
    if server.inherit_env and server.url:
        problems.append(f"servers.{name}.inherit_env: makes sense only with a command")
    if server.args and not server.command:
        problems.append(f"servers.{name}.args: makes sense only with a command")
    return problems


def endpoint_problem(name: str) -> str:
    """What is wrong with an endpoint's name; ``""`` when nothing is."""
    if name == DEFAULT_ENDPOINT:
        return "that is the endpoint that [gateway] describes; choose another name"
    if not SERVER_NAME.fullmatch(name):
        return "a name is letters, digits, '.', '-' and '_'; choose another"
    return ""
