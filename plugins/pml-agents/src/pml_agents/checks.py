"""Lines of ``pml plugins doctor``."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pml_hookspecs import Check, ToolId, split_tool_id
from pml_kit.mcp.tool_schemas import input_schema
from pml_kit.schema.members import properties

from .command_agents import environment
from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services

    from .settings import Agent

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


def checks(services: Services) -> Iterator[Check]:
    """One for each agent that cannot be asked, and one for all others."""
    settings: Settings = services.settings or Settings()
    good = 0
    for name, agent in sorted(settings.agents.items()):
        detail, remedy = _problem(services, agent)
        if detail:
            yield Check(f"agent {name}", ok=False, detail=detail, remedy=f"{remedy} in [plugins.agents.agents.{name}].")
        else:
            good += 1
    if good:
        yield Check("agents", ok=True, detail=f"{good} can be asked, as far as can be seen from here")


def _problem(services: Services, agent: Agent) -> tuple[str, str]:
    """What is wrong, and what to do; empty texts when nothing is."""
    if agent.kind == "command":
        return _problem_of_command(agent)
    if agent.kind == "url":
        return _problem_of_url(agent)
    return _problem_of_tool(services, agent)


def _problem_of_command(agent: Agent) -> tuple[str, str]:
    program = agent.command[0]
    if agent.cwd and not Path(agent.cwd).is_dir():
        return f"its working folder {agent.cwd} is not there", "Create it, or correct cwd"
    # As the system looks for it: a path counts from the working folder.
    if "/" in program:
        found = shutil.which(str(Path(agent.cwd or ".") / program))
    else:
        found = shutil.which(program, path=environment(agent).get("PATH"))
    if found is None:
        return f"there is no program {program}", "Install it, or correct command"
    missing = [name for name in ("HOME",) if name not in environment(agent)]
    if missing:
        return f"the gateway has no variable {missing[0]}, which most agents need", "Give it under env"
    return "", ""


def _problem_of_url(agent: Agent) -> tuple[str, str]:
    parts = urlsplit(agent.url)
    if parts.scheme == "http" and parts.hostname not in LOCAL_HOSTS and (agent.token or agent.headers):
        return f"what is sent to {parts.netloc} can be read on its way, its token too", "Use https"
    return "", ""


def _problem_of_tool(services: Services, agent: Agent) -> tuple[str, str]:
    server, name = split_tool_id(agent.tool)
    servers = {status.name for status in services.catalog.servers()} | {e.server for e in services.catalog}
    if server not in servers:
        return f"there is no server {server}", "Add the server, or correct tool"
    entry = services.catalog.get(ToolId(agent.tool))
    tools = sorted(e.name for e in services.catalog if e.server == server)
    if entry is None:
        # Of a server that was never up, no tools are known.
        known = ", ".join(tools[:10])
        return (f"{server} has no tool {name}; it has {known}", "Correct tool") if tools else ("", "")
    named = properties(input_schema(entry))
    if named and agent.argument not in named:
        return f"{agent.tool} has no argument {agent.argument}; it has {', '.join(named)}", "Correct argument"
    return "", ""
