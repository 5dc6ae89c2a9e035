"""``pml servers``: what servers say of their tools now, and that it is accepted."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pml_core.errors import OperatorError

from . import add_sources
from .output import print_json

if TYPE_CHECKING:
    from pml_core.definitions import Change

NOT_ACCEPTED = "Nothing was accepted; say yes to it with --yes."


def add(subcommands: Any) -> None:
    """Add the command."""
    parser = subcommands.add_parser("servers", help="look at changed definitions of tools, and accept them")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    text = "show how definitions of tools have changed, and accept that"
    one: argparse.ArgumentParser = verbs.add_parser("accept", help=text, description=text)
    add_sources(one)
    one.add_argument("server", metavar="NAME", help="the server, as in [servers.NAME]")
    one.add_argument("tool", metavar="TOOL", nargs="?", help="one tool, by the server's own name for it; all without")
    one.add_argument("--yes", action="store_true", help="accept without asking")
    one.add_argument("--json", action="store_true", help="one JSON document; asks nothing")
    one.set_defaults(run=run_accept)


def run_accept(arguments: argparse.Namespace) -> int:
    """Show the changes and accept them; 1 where they were not accepted."""
    import asyncio

    from . import load_as_told

    config = load_as_told(arguments)
    if arguments.server not in config.servers:
        known = ", ".join(sorted(config.servers)) or "none"
        raise OperatorError(f"there is no server {arguments.server!r}; configured: {known}")
    return asyncio.run(_accept(config, arguments))


async def _accept(config: Any, arguments: argparse.Namespace) -> int:
    from pml_core.acceptance import accept, changes_of
    from pml_core.gateway import Gateway
    from pml_core.logs import Logs

    async with Gateway(config, Logs("warning", config.gateway.log_format), connect=False) as gateway:
        found, version = await changes_of(gateway, arguments.server)
        if arguments.tool is not None:
            if arguments.tool not in found:
                raise OperatorError(f"{arguments.server} has no changed tool {arguments.tool!r}: {_named(found)}")
            found = {arguments.tool: found[arguments.tool]}
        if not arguments.json:
            for change in found.values():
                print("\n".join(_lines(change)))
        accepted = bool(found) and (arguments.yes or (not arguments.json and _asked(len(found))))
        if accepted:
            await accept(gateway, arguments.server, found, version)
        _say(arguments, found, accepted=accepted)
    return 0 if accepted or not found else 1


def _say(arguments: argparse.Namespace, found: dict[str, Change], *, accepted: bool) -> None:
    if arguments.json:
        changes = [one.kept() for one in found.values()]
        print_json({"server": arguments.server, "accepted": accepted, "changes": changes})
    elif not found:
        print(f"Nothing has changed on {arguments.server} that nobody has accepted.")
    else:
        print(f"Accepted on {arguments.server}: {', '.join(map(_plain, found))}." if accepted else NOT_ACCEPTED)


def _asked(count: int) -> bool:
    """Whether whoever sits there says yes; nobody does."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return input(f"Accept {count} changed definition{'s' if count > 1 else ''}? [y/N] ").strip().lower() in ("y", "yes")


def _named(found: dict[str, Change]) -> str:
    return f"changed: {', '.join(map(_plain, found))}" if found else "nothing has changed there"


def _lines(change: Change) -> Iterator[str]:
    """The difference, member by member."""
    yield f"{_plain(change.tool)}: {', '.join(change.fields)} ({change.seen_at})"
    before, now = change.before or {}, change.now
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            old, new = (_text(side[name]) if name in side else [] for side in (before, now))
            yield f"  {_plain(name)}:"
            yield from (f"    {_plain(line)}" for line in list(difflib.unified_diff(old, new, n=1, lineterm=""))[2:])


def _text(value: Any) -> list[str]:
    return value.splitlines() if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False).split("\n")


def _plain(text: str) -> str:
    """A server's words without what a terminal would obey or nobody would see."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
