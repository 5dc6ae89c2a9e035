"""``pml capabilities``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments, Scope
from pml_kit.offers import report_change
from pml_kit.terminal import print_columns, print_json, printable

from .graph import graph, used_together
from .library import Library, by_intent, library_of
from .settings import Settings
from .tools import staleness, takes

if TYPE_CHECKING:
    import argparse

    from pml_hookspecs import Services

    from .capability import Capability

LONGEST_CELL = 60


async def show_list(arguments: argparse.Namespace, services: Services) -> int:
    """What was learned, as a table or JSON."""
    known = await _of(arguments.principal, library_in(services))
    known = [c for c in known if arguments.retired or not c.retired]
    if words := " ".join(arguments.intent):
        known = [c for c, _ in by_intent(known, words)]
    if arguments.json:
        print_json([about_one(c, services) for c in known])
        return 0
    if not known:
        say("Nothing was learned yet: code that ends well with an intent is." if not words else "Nothing is like that.")
        return 0
    # A column for what is the same in all rows would tell nothing.
    several = len({c.owner for c in known}) > 1
    rows = [
        [c.id, c.name]
        + ([c.owner or "several"] if several else [])
        + [f"{c.successes}/{c.runs}", f"{c.duration_ms}", _state(c, services), c.intent]
        for c in known
    ]
    _show(["ID", "NAME", *(["WHOSE"] if several else []), "WELL", "MS", "STATE", "INTENT"], rows)
    return 0


async def show_one(arguments: argparse.Namespace, services: Services) -> int:
    """One, with its code."""
    capability = await one_named(arguments.id, library_in(services), arguments.principal)
    if arguments.json:
        print_json({**about_one(capability, services), "code": capability.code, "inputs": dict(capability.inputs)})
        return 0
    say(f"{capability.id}  {capability.name}  ({_state(capability, services)})")
    for intent in capability.intents:
        say(f"  {intent}")
    say(f"Ended well {capability.successes} of {capability.runs} times, in {capability.duration_ms} ms on average.")
    if why := capability.retired or staleness(capability, services.catalog):
        say(f"Not run any more: {why}.")
    for tool in sorted(capability.tools):
        say(f"Uses {tool}")
    say(f"Takes {takes(capability)}")
    if capability.disabled:
        say(f"Switched off; `pml capabilities enable {capability.id}` allows it again.")
    if capability.source:
        say(f"Imported from a file that says {capability.source} taught it.")
    say(f"\n{capability.language}:")
    for line in capability.code.splitlines():
        say(f"    {line}")
    return 0


async def forget(arguments: argparse.Namespace, services: Services) -> int:
    """Forget one, or all."""
    library = library_in(services)
    known = (
        await _of(arguments.principal, library)
        if arguments.all
        else [await one_named(arguments.id, library, arguments.principal)]
    )
    gone = []
    for capability in known:
        # First, because somebody who deletes might end the command before it is through.
        about = {"capability": capability.id, "name": capability.name, "principals": sorted(capability.principals)}
        await report_change(services, "capabilities", "capability.deleted", about)
        if await library.forget(capability.id):
            gone.append(capability)
    if arguments.json:
        print_json({"forgotten": [c.id for c in gone]})
    else:
        say(f"Forgot {gone[0].id} ({gone[0].name})." if len(gone) == 1 else f"Forgot {len(gone)} capabilities.")
    return 0


async def show_graph(arguments: argparse.Namespace, services: Services) -> int:
    """Edges as a table, or all of it as JSON."""
    together = await used_together(services.store.executions, Scope(principals=None))
    made = graph(await library_in(services).all(), together)
    if arguments.json:
        print_json(made)
        return 0
    names = {node["id"]: node["name"] if node["type"] == "capability" else node["id"] for node in made["nodes"]}
    rows = [
        [names[e["source"]], e["type"].replace("_", " "), names[e["target"]], str(e["weight"])] for e in made["edges"]
    ]
    _show(["FROM", "HOW", "TO", "TIMES"], rows)
    return 0


def library_in(services: Services) -> Library:
    """What is kept.

    Raises:
        InvalidArguments: The store in use keeps no documents.
    """
    library = library_of(services)
    if library is None:
        raise InvalidArguments("the store in use keeps no documents; set [gateway] store to one that does")
    return library


async def _of(principal: str, library: Library) -> Sequence[Capability]:
    """``principal``'s own; everybody's where it is empty."""
    return [c for c in await library.all() if not principal or c.owner == principal]


async def one_named(text: str, library: Library, principal: str = "") -> Capability:
    """By id, by name, or by how only one id begins; of ``principal``'s own, if one is given.

    Raises:
        InvalidArguments: There is none, or more than one.
    """
    known = await _of(principal, library)
    exact = [c for c in known if text in (c.id, c.name)]
    found = exact or [c for c in known if c.id.startswith(text)]
    if len(found) == 1:
        return found[0]
    if found:
        meant = ", ".join(f"{c.id} of {c.owner or 'several'}" for c in sorted(found, key=lambda c: c.id))
        raise InvalidArguments(f"{text!r} means {meant}; give more of the id, or --principal")
    whose = f" of {principal}" if principal else ""
    raise InvalidArguments(f"there is no capability {text!r}{whose}; `pml capabilities list --retired` shows all")


def _state(capability: Capability, services: Services) -> str:
    settings: Settings = services.settings or Settings()
    if capability.retired or staleness(capability, services.catalog):
        return "retired"
    if capability.disabled:
        return "disabled"
    return "proven" if capability.proven(settings) else "learned"


def about_one(capability: Capability, services: Services) -> dict[str, Any]:
    """One as JSON, without its code."""
    return {
        "id": capability.id,
        "name": capability.name,
        "intents": list(capability.intents),
        "language": capability.language,
        "state": _state(capability, services),
        "disabled": capability.disabled,
        "retired": capability.retired or staleness(capability, services.catalog) or None,
        "successes": capability.successes,
        "failures": capability.failures,
        "duration_ms": capability.duration_ms,
        "tools_used": sorted(capability.tools),
        "principals": sorted(capability.principals),
        "imported_from": capability.source or None,
    }


def say(text: str) -> None:
    """Write a line that cannot control a terminal."""
    sys.stdout.write(printable(text, keep="\n\t") + "\n")


def _show(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print_columns([list(map(_cell, row)) for row in rows], header)


def _cell(text: str) -> str:
    shown = printable(" ".join(text.split()))
    return shown if len(shown) <= LONGEST_CELL else f"{shown[: LONGEST_CELL - 1]}…"
