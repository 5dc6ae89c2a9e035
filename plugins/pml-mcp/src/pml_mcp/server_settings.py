"""``[servers.<name>]``: how a server is started or reached, and how the gateway treats it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pml_catalog.exposure.tool_rules import ToolRules
from pml_hookspecs import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """``[servers.<name>]``. Keys not named here are options of the server's transport, which checks them."""

    command: str = setting("", "Program to start; speaks MCP on standard input and output.")
    args: tuple[str, ...] = setting((), "Its arguments.")
    url: str = setting("", "Address of a server that runs already (https://host/mcp).")
    address: str = setting("", "Instead of command or url: <transport>:<what the transport understands>.")
    env: dict[str, str] = setting(
        dict,
        "Environment variables for the program; ${NAME} is one of the gateway's own, ${keyring:NAME}, ${file:PATH} and "
        "${command:WORDS} are what the keyring, a file and a command give.",
    )
    inherit_env: tuple[str, ...] = setting(
        (),
        "Variables of the gateway's own environment that the program gets besides the usual ones (PATH, HOME, locale, "
        "proxies, folders for temporary files, certificates): names, or beginnings such as 'DOCKER_*'.",
    )
    env_file: str = setting(
        "",
        "File of NAME=VALUE lines, relative to the configuration that names it: variables for the program, which env "
        "overrides, and what ${NAME} in this table refers to first. Its values are secrets. Read at each start.",
    )
    headers: dict[str, str] = setting(dict, "HTTP headers for a url; ${NAME} and the like as in env.")
    cwd: str | None = setting(None, "Working directory of the program.")
    timeout_s: float | None = setting(
        None, "Longest wait for an answer; the gateway's call_timeout_s if not set [s].", ge=0.001
    )
    start_timeout_s: float | None = setting(
        None, "Longest wait for it to start and list its tools; the gateway's if not set [s].", ge=0.001
    )
    prefix: str | None = setting(
        None, "What names of its tools and prompts begin with; its name and '__' if not set, nothing if empty."
    )
    enabled: bool = setting(default=True, description="False: neither started nor listed.")
    era: Literal["client", "legacy", "modern"] = setting(
        "client",
        "Revisions to speak with it: as its client does if it can, only with a handshake, only without.",
    )
    sharing: Literal["auto", "shared", "per_client", "per_principal"] = setting(
        "auto",
        "One for all clients, or one for each; auto: remote servers have a session for each, and of programs that list "
        "other tools for clients that can be asked something each of those clients has its own. per_principal: as "
        "per_client, and each principal has a login of its own there.",
    )
    max_clients: int = setting(16, "Clients that have one of their own at a time, when not shared.", ge=1)
    relist_s: float = setting(
        60.0,
        "Its lists are read again when a client asks for one and they were last read this long ago: servers need not "
        "tell of changes. 0 for each time, inf for never [s].",
        ge=0,
    )
    start: Literal["eager", "lazy"] = setting(
        "eager", "Start it with the gateway, or at its first call; what it has besides tools is listed then."
    )
    idle_timeout_s: float | None = setting(None, "Stop it after this long unused; never if not set [s].", ge=0.1)
    max_in_flight: int = setting(1024, "Requests it gets at a time; further ones wait in order.", ge=1)
    max_queued: int = setting(16384, "Requests that wait for it; further ones are refused at once.", ge=0)
    methods: tuple[str, ...] = setting(
        (), "Methods besides MCP's own that clients may send it, by name or pattern, such as 'vendor/*'."
    )
    tools: ToolRules = setting(
        ToolRules(),
        "Which of its tools may be had, in any mode and by anybody: allow = [...], deny = [...], patterns of its own "
        "names for them; deny wins.",
    )
    reset_timeout_on_progress: bool = setting(default=False, description="Progress gives a call all of its time again.")
    on_change: Literal["warn", "hold"] = setting(
        "warn",
        "What happens to a tool whose description, schemas or hints change after they were first seen: it is said, or "
        "the tool is also refused until pml servers accept.",
    )
    trust: Literal["first_use", "review"] = setting(
        "first_use",
        "What happens to a tool that is not in pml.lock: it is used, or refused until pml lock review.",
    )
    words: Literal["auto", "trusted", "untrusted", "strangers"] = setting(
        "auto",
        "What its results may decide: anything (trusted); not where other servers' tools send, write or delete "
        "(untrusted); nor, as others write them (mail, web pages), where its own do (strangers). auto: untrusted where "
        "its url is on another machine.",
    )
    options: dict[str, Any] = setting(dict, "Options of the transport; the other keys of the table are added to them.")
