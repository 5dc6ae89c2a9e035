"""``pml plugins``: what is installed, what is wrong with it, and in which order it acts."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from pml_core.plugins import local_plugins, registry
from pml_kit.terminal import print_columns, print_json

from .sources import add_sources, load_as_told

CONNECT = "also start every server and list its tools, and say how the store is"


def add(subcommands: Any) -> None:
    """Add the commands."""
    parser = subcommands.add_parser("plugins", help="list, check and order the installed plugins")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for verb, function, text in (
        ("list", run_list, "every installed plugin; imports none of them"),
        (
            "doctor",
            run_doctor,
            "import every plugin, check settings and servers; exit status 1 if anything is wrong, 2 if it cannot look",
        ),
        ("chain", run_chain, "the wrappers around every call, outermost first"),
    ):
        one: argparse.ArgumentParser = verbs.add_parser(verb, help=text, description=text)
        add_sources(one)
        one.add_argument("--json", action="store_true", help="one JSON document")
        if verb == "doctor":
            one.add_argument(
                "--connect",
                action="store_true",
                help=CONNECT,
            )
        one.set_defaults(run=function)


def run_list(arguments: argparse.Namespace) -> int:
    """Print every entry point found."""
    records = local_plugins.found(load_as_told(arguments), thorough=True)
    if arguments.json:
        print_json([as_json(r) for r in records])
        return 0
    rows = [(r.kind, r.name, r.state, r.origin, r.problem) for r in records]
    print_columns(rows, ("KIND", "NAME", "STATE", "DISTRIBUTION", "PROBLEM"))
    return 0


def as_json(record: registry.Record) -> dict[str, str]:
    """A record for machines."""
    return {
        "kind": record.kind,
        "name": record.name,
        "state": record.state.value,
        "distribution": record.dist,
        "version": record.version,
        "target": record.target,
        "file": record.file,
        "requires_api": record.requires_api,
        "problem": record.problem,
        "remedy": record.remedy,
    }


def run_doctor(arguments: argparse.Namespace) -> int:
    """Print one line per plugin, check and server; 1 when one is not well."""
    import asyncio

    lines = asyncio.run(_examined(load_as_told(arguments), connect=arguments.connect))
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


async def _examined(config: Any, *, connect: bool) -> list[Any]:
    from pml_core.admin.doctor import examine

    from .progress import until_started

    lines = await examine(config, connect=connect, watch=until_started)
    from pml_core.admin.live import findings

    return [*lines, *[line async for line in findings(config, lines, connect=connect)]]


def run_chain(arguments: argparse.Namespace) -> int:
    """Print the wrappers in order."""
    from pml_core.admin.doctor import chain_of
    from pml_kit.order import Order

    chain, problems = chain_of(load_as_told(arguments))
    rows = [(w.wrapper.phase.name, w.plugin, type(w.wrapper).__name__, Order.of(w.wrapper)) for w in chain]
    if arguments.json:
        print_json([{"phase": p, "plugin": n, "wrapper": w, **order.said()} for p, n, w, order in rows])
        return 0
    rows.append(("-", "core", "the executor of the task's kind", Order()))
    print_columns([(*row[:3], str(row[3])) for row in rows], ("PHASE", "PLUGIN", "WRAPPER", "ORDER"))
    for problem in problems:
        print(f"pml: {problem}", file=sys.stderr)
    return 0
