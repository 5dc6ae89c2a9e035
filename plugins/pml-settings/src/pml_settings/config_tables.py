"""The tables of the configuration that are no plugin's: ``[gateway]``, ``[servers.<name>]``, ``[endpoints.<name>]``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from pml_catalog.exposure import DEFAULT_ENDPOINT, META_ONLY
from pml_catalog.exposure.tool_rules import ToolRules
from pml_hookspecs import GATEWAY_SERVER, setting
from pml_mcp.server_settings import ServerSettings

ENVIRONMENT_PREFIX = "PML_"
PREFIX = re.compile(r"[A-Za-z0-9._-]{0,32}")
SERVER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """``[gateway]``."""

    name: str = setting("pml", "What it calls itself to clients that have several servers behind it.")
    tools_exposure: str = setting(META_ONLY, "Exposure mode: which tools clients see. An installed mode's name.")
    intent: str = setting("", "Hint at what the clients of this gateway do, for modes that select by it.")
    execution_mode: Literal["real", "dry_run"] = setting(
        "real", "What a call does when it does not say itself.", project=("dry_run",)
    )
    dry_run_only: bool = setting(
        default=False,
        description="Rehearse everything: no call, key, plan or schedule can ask for more.",
        project=(True,),
    )
    store: str = setting(
        "",
        "Where executions and the catalog are kept: an installed store's name. If empty, the last are kept in memory.",
        project="never",
    )
    tracers: tuple[str, ...] = setting((), "Tracers that watch every call, by name.", project="add")
    executors: dict[str, str] = setting(
        dict,
        "Kind of task (workflow, durable, capability, code, code.<language>, program.<language>) to its executor.",
        project="never",
    )
    providers: dict[str, str] = setting(
        dict, "Part (search, embedder, suggester, identities) to the plugin whose counts.", project="never"
    )
    block: tuple[str, ...] = setting((), "Plugins or distributions that are not to be loaded.", project="never")
    required: tuple[str, ...] = setting(
        (),
        "Plugins or distributions that the gateway does not start without, whatever else is installed.",
        project="add",
    )
    local: tuple[str, ...] = setting(
        (),
        "Files of Python, each a hook plugin named after it; relative to the configuration that names them.",
        project="add",
    )
    strict: bool = setting(
        default=False, description="Refuse to start when any plugin fails, instead of going without.", project=(True,)
    )
    call_timeout_s: float = setting(
        60.0, "Longest wait for a tool's answer, unless its server says otherwise [s].", ge=0.001
    )
    start_timeout_s: float = setting(30.0, "Longest wait for a server to start and list its tools [s].", ge=0.001)
    list_wait_s: float = setting(10.0, "Longest that tools/list waits for servers never seen before [s].", ge=0)
    page_size: int = setting(0, "Items on one page of a list; 0 for all on one.", ge=0)
    drain_s: float = setting(
        5.0, "Time that work in the background gets to end when the gateway stops; what waits is kept [s].", ge=0
    )
    shutdown_delay_s: float = setting(
        0.0, "Time that it goes on serving when it is told to stop, while /readyz says so to load balancers [s].", ge=0
    )
    ready_servers: tuple[str, ...] = setting(
        ("*",), "Servers, by name or pattern, without which /readyz says that the gateway is not ready."
    )
    answer_wait_s: float = setting(
        600.0, "Longest wait for a client's answer to a server's question, where there is no session [s].", ge=1
    )
    record_bytes: int = setting(65536, "Longest request or response kept whole in the history [bytes].", ge=256)
    durability: Literal["soon", "full"] = setting(
        "soon",
        "When a call's row is in the store: within a tenth of a second of its end, and in a file of this machine "
        "before it is answered; or, with full, before it is answered. "
        "Ends of agents, plans and code, and of whatever cost something, are always on disk first.",
        project=("full",),
    )
    max_resumes: int = setting(
        5, "Most attempts to go on with a durable plan whose gateway goes down each time; then it has failed.", ge=1
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "Least severity that is logged.", project="never"
    )
    log_format: Literal["console", "json"] = setting(
        "console", "Log lines for people or for machines.", project="never"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings:
    """``[endpoints.<name>]``: one more way in, with an exposure mode of its own (over HTTP, ``/mcp/<name>``)."""

    tools_exposure: str = setting(META_ONLY, "Exposure mode: which tools its clients see.")
    intent: str = setting("", "Hint at what its clients do, for modes that select by it.")
    execution_mode: Literal["", "real", "dry_run"] = setting(
        "", "What a call does when it does not say itself; as in [gateway] if empty."
    )
    dry_run_only: bool = setting(
        default=False, description="Rehearse everything that comes in here: no call, key or plan can ask for more."
    )


def normalise(tree: Mapping[str, Any]) -> dict[str, Any]:
    """``tree`` with ``gateway.<plugin>.*``, the older spelling, moved to ``plugins.<plugin>.*``."""
    gateway = tree.get("gateway")
    if not isinstance(gateway, dict):
        return dict(tree)
    known = {f.name for f in fields(GatewaySettings)}
    moved = {k: v for k, v in gateway.items() if k not in known and isinstance(v, dict)}
    if not moved:
        return dict(tree)
    plugins = tree.get("plugins") or {}
    if not isinstance(plugins, dict) or not all(isinstance(plugins.get(name, {}), dict) for name in moved):
        return dict(tree)  # of the wrong shape, which validation says better
    plugins = {**plugins, **{name: {**table, **plugins.get(name, {})} for name, table in moved.items()}}
    return {**tree, "gateway": {k: v for k, v in gateway.items() if k not in moved}, "plugins": plugins}


MADE: Mapping[str, Callable[[Any], Any]] = {"args": tuple, "inherit_env": tuple, "tools": ToolRules.of}
"""What makes values of other types of those that files have."""


def make_server(table: Mapping[str, Any]) -> ServerSettings:
    """Server settings from values that are known to be of the right types."""
    known = {f.name for f in fields(ServerSettings)} - {"options"}
    given: dict[str, Any] = {k: MADE[k](v) if k in MADE else v for k, v in table.items() if k in known}
    options = {k: v for k, v in table.items() if k not in known and k != "options"}
    return ServerSettings(**given, options={**table.get("options", {}), **options})


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
