"""What is legal in a configuration, but hardly meant."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from pml_hookspecs import GATEWAY_SERVER, split_tool_id

from .config import DEFAULT_ENDPOINT, Config

MANY = 100
"""More listed tools than this fill a context [tools]."""
BY_INTENT = ("semantic", "hybrid")
TABLE = "plugins.hybrid"
DEFAULTS: Mapping[str, Any] = {
    "expose_meta_tools": True,
    "expose_underlying_tools": True,
    "apply_semantic_filter": True,
    "max_underlying_tools": 50,
    "semantic_threshold": 0.6,
    "whitelisted_tools": (),
    "blacklisted_tools": (),
    "intents": (),
    "fallback": "nothing",
}


def doubts(config: Config, types: Mapping[str, type[Any]]) -> list[str]:
    """One sentence each, with what to do; empty when all looks meant.

    Args:
        config: One that fits.
        types: The settings classes of plugins, by name.
    """
    hybrid = _settings(config, types)
    modes = {DEFAULT_ENDPOINT: (config.gateway.tools_exposure, config.gateway.intent)}
    modes |= {name: (endpoint.tools_exposure, endpoint.intent) for name, endpoint in config.endpoints.items()}
    used = {mode for mode, _ in modes.values()}
    checks: list[Callable[[], Iterator[str]]] = [
        lambda: _servers(config),
        lambda: _modes(modes, hybrid),
        lambda: _hybrid(hybrid) if "hybrid" in used else iter(()),
        lambda: _caps(hybrid) if used & set(BY_INTENT) else _unused(config),
        lambda: _lists(config, hybrid),
    ]
    return [line for check in checks for line in check()]


def of_mode(config: Config, types: Mapping[str, type[Any]], mode: str) -> list[str]:
    """What is doubtful about ``mode`` as that of all clients, with what else is configured."""
    return list(_modes({DEFAULT_ENDPOINT: (mode, config.gateway.intent)}, _settings(config, types)))


def _settings(config: Config, types: Mapping[str, type[Any]]) -> Mapping[str, Any]:
    settings = config.plugin("hybrid", types["hybrid"]) if "hybrid" in types else None
    return DEFAULTS if settings is None else {**DEFAULTS, **asdict(settings)}


def _servers(config: Config) -> Iterator[str]:
    if not any(server.enabled for server in config.servers.values()):
        yield "No servers are configured, or all are disabled: clients find no tools. pml import takes over a client's."


def _modes(modes: Mapping[str, tuple[str, str]], hybrid: Mapping[str, Any]) -> Iterator[str]:
    for endpoint, (mode, intent) in modes.items():
        where = "gateway" if endpoint == DEFAULT_ENDPOINT else f"endpoints.{endpoint}"
        if mode == "full_proxy":
            yield (
                f"{where}.tools_exposure: full_proxy puts every tool into each client's context. Fine to begin with; "
                "pml tokens shows what the other modes cost."
            )
        listed = mode == "hybrid" and (
            hybrid["intents"] or hybrid["fallback"] != "nothing" or not hybrid["apply_semantic_filter"]
        )
        if mode in BY_INTENT and not intent.strip() and not listed:
            several = f", or one by one in {TABLE}.intents, or set {TABLE}.fallback" if mode == "hybrid" else ""
            yield (
                f"{where}.intent: is empty, so {mode} lists no tools by relevance to clients that send no hint of "
                f"their own. Say in a few words what the clients do{several}, or choose meta_only."
            )


def _hybrid(hybrid: Mapping[str, Any]) -> Iterator[str]:
    if not hybrid["expose_meta_tools"] and not hybrid["expose_underlying_tools"]:
        yield f"{TABLE}: expose_meta_tools and expose_underlying_tools are both off: clients see nothing. Turn one on."
    elif not hybrid["expose_meta_tools"]:
        yield f"{TABLE}.expose_meta_tools: is off: what is not listed cannot be found. Turn it on."
    if not hybrid["expose_underlying_tools"] and hybrid["whitelisted_tools"]:
        yield f"{TABLE}.whitelisted_tools: has no effect while expose_underlying_tools is off."
    if len(hybrid["whitelisted_tools"]) > hybrid["max_underlying_tools"]:
        yield (
            f"{TABLE}.whitelisted_tools: names more tools than max_underlying_tools allows; they are all listed, "
            "and the list is longer than that."
        )


def _caps(hybrid: Mapping[str, Any]) -> Iterator[str]:
    if hybrid["max_underlying_tools"] > MANY:
        yield f"{TABLE}.max_underlying_tools: over {MANY} tools fill a context; 20 to 50 suit most clients."
    if hybrid["apply_semantic_filter"] and hybrid["semantic_threshold"] == 0:
        yield f"{TABLE}.semantic_threshold: at 0 the list is filled up with tools that do not fit; 0.6 is the default."
    if hybrid["apply_semantic_filter"] and hybrid["semantic_threshold"] == 1:
        yield f"{TABLE}.semantic_threshold: at 1 hardly any tool is listed; 0.6 is the default."


def _unused(config: Config) -> Iterator[str]:
    said = [name for name in config.tables.get("hybrid", {}) if name != "blacklisted_tools"]
    if said:
        yield f"{TABLE}: {', '.join(said)} has no effect: no endpoint uses hybrid or semantic."


def _lists(config: Config, hybrid: Mapping[str, Any]) -> Iterator[str]:
    white, black = hybrid["whitelisted_tools"], hybrid["blacklisted_tools"]
    for name in sorted(set(white) & set(black)):
        yield f"{TABLE}: {name!r} is in both lists; the blacklist wins. Take it out of one of them."
    known = {name for name, server in config.servers.items() if server.enabled} | {GATEWAY_SERVER}
    for key, names in (("whitelisted_tools", white), ("blacklisted_tools", black)):
        for name in names:
            server = _server_of(name)
            if not server and key == "blacklisted_tools" and any(char in name for char in "*?["):
                yield f"{TABLE}.{key}: {name!r} names no server, so it fits nothing; write '*:{name}' for any server."
            elif server and config.servers and server not in known and not any(char in server for char in "*?["):
                remedy = f"correct the name{_near(server, known)}"
                yield f"{TABLE}.{key}: {name!r}: no server {server!r} is configured and enabled; {remedy}."


def _near(server: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(server, known, n=1)
    return f", maybe to {found[0]!r}" if found else ""


def _server_of(name: str) -> str:
    return split_tool_id(name)[0] or (name.partition("__")[0] if "__" in name else "")
