"""Lines of ``pml plugins doctor``."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pml_hookspecs import GATEWAY_SERVER, Check, split_tool_id

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services

    from .settings import Rule


def checks(services: Services) -> Iterator[Check]:
    """One for each rule that fits nothing, or one for all when there is none such."""
    settings: Settings = services.settings or Settings()
    servers = {status.name for status in services.catalog.servers()} | {GATEWAY_SERVER}
    tools: set[str] = {entry.id for entry in services.catalog}
    wrong = 0
    for name, rule in settings.rules.items():
        problem = _problem(rule, servers, tools)
        if problem:
            wrong += 1
            remedy = f"Mend or remove [plugins.limits.rules.{name}]."
            yield Check(f"limit {name}", ok=False, detail=problem, remedy=remedy)
    if settings.rules and not wrong:
        yield Check("limits", ok=True, detail=f"{len(settings.rules)} rules")


def _problem(rule: Rule, servers: set[str], tools: set[str]) -> str:
    if not any(fnmatchcase(server, rule.server) for server in servers):
        return f"no server fits {rule.server!r}; there are {', '.join(sorted(servers))}"
    # Of a server that was never up, no tools are known.
    known = {split_tool_id(tool)[0] for tool in tools}
    server = split_tool_id(rule.tool)[0]
    if server in known and not any(fnmatchcase(tool, rule.tool) for tool in tools):
        return f"no tool of {server} fits {rule.tool!r}"
    return ""
