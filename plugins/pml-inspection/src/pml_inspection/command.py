"""``pml inspect``: what is suspicious about what servers say, as they were last seen."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from pml_hookspecs import Check
from pml_kit.terminal import print_json, print_table

if TYPE_CHECKING:
    from pml_hookspecs import Services

    from .definitions import DefinitionInspector

InspectorOf: TypeAlias = "Callable[[Services], DefinitionInspector]"


def add(subcommands: Any, inspector_of: InspectorOf) -> None:
    """Add the command; ``inspector_of`` is the one of services."""
    about = "what servers say that nobody sees, or that pretends to be instructions"
    parser = subcommands.add_parser("inspect", help=about)
    parser.add_argument("--server", metavar="NAME", help="of this server alone")
    parser.add_argument("--check", action="store_true", help="exit with 1 if anything is found that is not accepted")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(run_with=partial(_run, inspector_of))


def rows(services: Services, inspector_of: InspectorOf) -> Iterator[dict[str, str]]:
    """Each finding about the tools and the descriptions of all servers, ordered by server and tool."""
    from pml_kit.offers.presentation import served
    from pml_kit.text.inspection import findings

    from .definitions import Occurrence, alike
    from .settings import Settings

    settings: Settings = services.settings or Settings()
    inspector, named = inspector_of(services), alike(services.catalog)

    def row(server: str, tool: str, action: str, one: Occurrence) -> dict[str, str]:
        finding = one.finding
        return {
            "server": server,
            "tool": tool,
            "where": one.where,
            "rule": finding.rule,
            "reason": finding.reason,
            "excerpt": finding.excerpt,
            "action": action,
        }

    for entry in sorted((served(one) for one in services.catalog if not one.own), key=lambda one: one.id):
        action = settings.of_definitions(entry.id, entry.server)
        found = [*inspector.found(entry), *([named[entry.id]] if entry.id in named else [])]
        yield from (row(entry.server, entry.name, action, one) for one in found)
    for status in services.catalog.servers():
        for finding in findings(status.description, inspector.phrases):
            yield row(status.name, "", "mark", Occurrence("instructions", finding))


async def _run(inspector_of: InspectorOf, arguments: argparse.Namespace, services: Services) -> int:
    found = [row for row in rows(services, inspector_of) if arguments.server in (None, row["server"])]
    if arguments.json:
        print_json({"tools": sum(not entry.own for entry in services.catalog), "findings": found})
    elif found:
        columns = ("server", "tool", "where", "rule", "reason", "excerpt", "action")
        print_table(columns, [[row[name] for name in columns] for row in found])
    else:
        sys.stdout.write("Nothing suspicious is known of. Start the servers and look: pml inspect --connect\n")
    return int(bool(arguments.check and any(row["action"] != "off" for row in found)))


def checks(services: Services, inspector_of: InspectorOf) -> Iterable[Check]:
    """One line for all servers."""
    title = "definitions of tools have no suspicious text"
    tools = sorted({f"{row['server']}:{row['tool']}" for row in rows(services, inspector_of) if row["action"] != "off"})
    if not tools:
        return [Check(title, ok=True)]
    shown = ", ".join(tools[:3]) + (", …" if len(tools) > len(tools[:3]) else "")
    return [Check(title, ok=False, detail=f"found in {len(tools)}: {shown}", remedy="read them: pml inspect")]
