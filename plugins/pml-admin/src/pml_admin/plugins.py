"""``pml plugins``: what is installed, what is wrong with it, and in which order it acts."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from pml_kit.terminal import print_columns, print_json
from pml_settings.installation import as_json

if TYPE_CHECKING:
    from pml_settings.installation import Installation

    from .finding import Finding


def run_list(arguments: argparse.Namespace, installation: Installation) -> int:
    """Print every entry point found."""
    records = installation.records()
    if arguments.json:
        print_json([as_json(r) for r in records])
        return 0
    rows = [(r.kind, r.name, r.state, r.origin, r.problem) for r in records]
    print_columns(rows, ("KIND", "NAME", "STATE", "DISTRIBUTION", "PROBLEM"))
    return 0


def run_doctor(arguments: argparse.Namespace, installation: Installation) -> int:
    """Print one line per plugin, check and server; 1 when one is not well."""
    import asyncio

    lines = asyncio.run(_examined(installation, connect=arguments.connect))
    if arguments.json:
        print_json([line.as_json() for line in lines])
    else:
        print_columns([(("ok" if line.ok else "FAIL"), line.subject, line.detail) for line in lines if line.ok])
        for line in lines:
            if not line.ok:
                print(f"FAIL  {line.subject}: {line.detail}")
                if line.remedy:
                    print(f"      {line.remedy}")
    return 0 if all(line.ok for line in lines) else 1


async def _examined(installation: Installation, *, connect: bool) -> list[Finding]:
    from pml_kit.command_line.start_progress import until_started

    from .doctor import examine
    from .startup import findings

    lines = await examine(installation, connect=connect, watch=until_started)
    return [*lines, *[line async for line in findings(installation, lines, connect=connect)]]


def run_chain(arguments: argparse.Namespace, installation: Installation) -> int:
    """Print the wrappers in order, and below the core's the filters that it asks."""
    from pml_kit.order import Order

    from .offline import chain_of

    chain, filters, problems = chain_of(installation)
    links: list[dict[str, Any]] = []
    for one in chain:
        phase, order = one.wrapper.phase.name, Order.of(one.wrapper)
        links.append({"phase": phase, "plugin": one.plugin, "wrapper": type(one.wrapper).__name__, **order.said()})
        if one.plugin == "core":
            links += [{"phase": phase, "plugin": plugin, "filter": _name_of(keeps)} for plugin, keeps in filters]
    if arguments.json:
        print_json(links)
        return 0
    rows = [
        (
            link["phase"],
            link["plugin"],
            link.get("wrapper") or f"{link['filter']} (filter)",
            str(Order(tuple(link.get("before", ())), tuple(link.get("after", ())))),
        )
        for link in links
    ]
    rows.append(("-", "core", "the executor of the task's kind", ""))
    print_columns(rows, ("PHASE", "PLUGIN", "WRAPPER", "ORDER"))
    for problem in problems:
        print(f"pml: {problem}", file=sys.stderr)
    return 0


def _name_of(keeps: Any) -> str:
    """What a filter is called: a function's own name, or that of an object's class."""
    return str(getattr(keeps, "__name__", type(keeps).__name__))
