"""``pml servers``: the servers that are configured, and what they say of their tools now."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pml_core.errors import OperatorError
from pml_kit.terminal import print_json, printable

from . import servers_view
from .setup import servers_change
from .sources import add_sources

if TYPE_CHECKING:
    from pml_core.catalog.definitions import Change

NOT_ACCEPTED = "Nothing was accepted; say yes to it with --yes."


class _Parser(argparse.ArgumentParser):
    """Leaves what stands behind ``--`` alone: a program to start has options of its own."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = list(args or ())
        if self.get_default("command") is None or "--" not in words:
            return super().parse_known_args(words, namespace)
        place = words.index("--")
        found, rest = super().parse_known_args(words[:place], namespace)
        found.command = words[place + 1 :]
        return found, rest


def add(subcommands: Any) -> None:
    """Add the command."""
    parser = subcommands.add_parser("servers", help="list, add, change, restart and look into servers")
    verbs = parser.add_subparsers(metavar="VERB", required=True, parser_class=_Parser)

    def verb(name: str, run: Callable[[argparse.Namespace], int], text: str, *, many: bool = False) -> Any:
        one: argparse.ArgumentParser = verbs.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        add_sources(one)
        one.add_argument("--json", action="store_true", help="one JSON document")
        if name != "list":
            of = "the server, as in [servers.NAME]"
            one.add_argument("server", metavar="NAME", help=of, nargs="+" if many else None)
        one.set_defaults(run=run, verb=name)
        return one

    looking = [verb("list", servers_view.run_list, "what is configured, and how it was when last seen")]
    adding = verb("add", servers_change.run_add, "write a section for a server into your own configuration")
    _add_options(adding)
    changing = [adding, verb("remove", servers_change.run_remove, "take a server out of your own configuration")]
    changing.append(verb("enable", servers_change.run_enable, "have a server started again"))
    changing.append(verb("disable", servers_change.run_enable, "have a server neither started nor listed"))
    verb("restart", servers_change.run_restart, "have running gateways of yours start servers anew", many=True)
    looking.append(verb("tools", servers_view.run_tools, "the tools of a server, and which of them may be had"))
    for one in looking:
        one.add_argument("--connect", action="store_true", help="start it instead of using what is remembered")
    for one in changing:
        one.add_argument("--dry-run", action="store_true", help="show the change, write nothing")
        one.add_argument("--yes", action="store_true", help="do not ask")
    accepting = verb("accept", run_accept, "show how definitions of tools have changed, and accept that")
    accepting.add_argument("tool", metavar="TOOL", nargs="?", help="one tool, by the server's own name; all without")
    accepting.add_argument("--yes", action="store_true", help="accept without asking")


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.usage = "pml servers add NAME [OPTION]… (--url URL | -- COMMAND [ARGUMENT]…)"
    parser.set_defaults(command=[])
    parser.add_argument("--url", help="address of a server that runs already")
    parser.add_argument("--env", metavar="NAME=VALUE", action="append", default=[], help="a variable for the program")
    parser.add_argument("--env-file", metavar="FILE", help="file of variables, relative to the configuration")
    parser.add_argument("--header", metavar="NAME:VALUE", action="append", default=[], help="an HTTP header")
    parser.add_argument("--cwd", metavar="FOLDER", help="working directory of the program")
    parser.add_argument("--lazy", action="store_true", help="start it at its first call")
    for option, text in (("--allow", "the only tools that may be had"), ("--deny", "tools that may not be had")):
        parser.add_argument(option, metavar="PATTERN", action="append", help=f"{text}; may be repeated")
    parser.add_argument("--replace", action="store_true", help="replace the section that is there")


def run_accept(arguments: argparse.Namespace) -> int:
    """Show the changes and accept them; 1 where they were not accepted."""
    import asyncio

    from .sources import load_as_told

    config = load_as_told(arguments)
    if arguments.server not in config.servers:
        known = ", ".join(sorted(config.servers)) or "none"
        raise OperatorError(f"there is no server {arguments.server!r}; configured: {known}")
    return asyncio.run(_accept(config, arguments))


async def _accept(config: Any, arguments: argparse.Namespace) -> int:
    from pml_core.catalog.definitions import accept_kept, changes_kept
    from pml_core.gateway import Gateway
    from pml_core.kernel.identities import by_operator
    from pml_core.logs import Logs
    from pml_hookspecs import AccessEvent

    server, settings = arguments.server, config.servers[arguments.server]

    async with Gateway(config, Logs("warning", config.gateway.log_format), connect=False) as gateway:
        if gateway.store is None:
            raise OperatorError("the store is not open")
        documents = gateway.store.documents
        found, version = await changes_kept(documents, server, settings)
        if arguments.tool is not None:
            if arguments.tool not in found:
                raise OperatorError(f"{server} has no changed tool {arguments.tool!r}: {_named(found)}")
            found = {arguments.tool: found[arguments.tool]}
        if not arguments.json:
            for change in found.values():
                print("\n".join(_lines(change)))
        accepted = bool(found) and (arguments.yes or (not arguments.json and _asked(len(found))))
        if accepted:
            names = sorted(found)
            await accept_kept(documents, server, settings, names, version)
            details = {"server": server, "tools": names}
            event = AccessEvent(kind="change", target=server, code="definitions.accepted", details=details)
            await gateway.access_watchers.tell(by_operator(event))
        _say(arguments, found, accepted=accepted)
    return 0 if accepted or not found else 1


def _say(arguments: argparse.Namespace, found: dict[str, Change], *, accepted: bool) -> None:
    if arguments.json:
        changes = [one.kept() for one in found.values()]
        print_json({"server": arguments.server, "accepted": accepted, "changes": changes})
    elif not found:
        print(f"Nothing has changed on {arguments.server} that nobody has accepted.")
    else:
        print(f"Accepted on {arguments.server}: {', '.join(map(printable, found))}." if accepted else NOT_ACCEPTED)


def _asked(count: int) -> bool:
    """Whether whoever sits there says yes; nobody does."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return input(f"Accept {count} changed definition{'s' if count > 1 else ''}? [y/N] ").strip().lower() in ("y", "yes")


def _named(found: dict[str, Change]) -> str:
    return f"changed: {', '.join(map(printable, found))}" if found else "nothing has changed there"


def _lines(change: Change) -> Iterator[str]:
    """The difference, member by member."""
    yield f"{printable(change.tool)}: {', '.join(change.fields)} ({change.seen_at})"
    before, now = change.before or {}, change.now
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            old, new = (_text(side[name]) if name in side else [] for side in (before, now))
            yield f"  {printable(name)}:"
            yield from (f"    {printable(line)}" for line in list(difflib.unified_diff(old, new, n=1, lineterm=""))[2:])


def _text(value: Any) -> list[str]:
    return value.splitlines() if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False).split("\n")
