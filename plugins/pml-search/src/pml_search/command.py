"""``pml search``: find tools from the command line, and answer evaluators."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pml_hookspecs import Services

    from .ranker import Ranker
    from .rows import Tool

MOST = 1000
NO_CATALOG = (
    "pml search: there are no tools to search: the gateway has not seen any yet.\n"
    "     Add --connect to start your servers, or give a catalog with --catalog FILE, one tool a line: "
    '{"id", "server", "name", "description", "input_schema"}'
)


def add(subcommands: Any) -> None:
    """Add the command to the sub-parsers of ``pml``."""
    parser: argparse.ArgumentParser = subcommands.add_parser(
        "search",
        help="find tools by what they do",
        description="Find tools by what they do. The ranking is the one that serves the gateway.",
    )
    parser.add_argument("query", nargs="*", metavar="QUERY", help="what the tool should do, in any words")
    parser.add_argument("--catalog", metavar="FILE", help="search this catalog: JSON lines, one tool each")
    parser.add_argument(
        "--jsonl",
        metavar="CATALOG",
        help='search CATALOG for each line {"qid", "query", "k"} of standard input, and answer at once with one line',
    )
    parser.add_argument("--limit", type=_count, default=10, metavar="N", help="most tools to show (10)")
    parser.add_argument("--min-score", type=_score, default=0.0, metavar="X", help="least relevance, from 0 to 1 (0)")
    parser.add_argument("--server", help="only tools of this server")
    parser.add_argument("--effect", choices=("read", "write"), help="only tools that change nothing, or that may")
    parser.add_argument("--detail", choices=("brief", "full"), default="brief", help="full adds the schemas")
    parser.add_argument("--explain", action="store_true", help="say what speaks for each tool")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run, run_with=run_with)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 to {MOST}")
    return int(text)


def _score(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to 1")
    return value


async def run_with(arguments: argparse.Namespace, services: Services) -> int:
    """Search the gateway's own catalog; the exit status as of :func:`run`."""
    arguments.services = services
    status = run(arguments)
    return _wrong(NO_CATALOG) if status is None else status


def run(arguments: argparse.Namespace) -> int | None:
    """Do what the arguments say.

    Returns:
        The exit status: 0, 1 when nothing was found, 2 for a mistake of the user's; None when it takes the gateway's
        own catalog, which is not at hand.
    """
    from .catalogs import CatalogError

    try:
        if arguments.jsonl:
            return _answer(arguments)
        return _search(arguments)
    except CatalogError as exc:
        return _wrong(f"pml search: {exc}")


def _wrong(message: str) -> int:
    _complain(message)
    return 2


def _complain(message: str) -> None:
    print(message, file=sys.stderr)  # noqa: T201 - a command speaks to people


def _answer(arguments: argparse.Namespace) -> int:
    from .evaluators import answer

    if arguments.query or arguments.catalog:
        return _wrong("pml search: --jsonl reads its queries from standard input; leave out QUERY and --catalog")
    ranker, _ = _ranker(arguments.jsonl)
    answer(ranker, sys.stdin.buffer, sys.stdout, sys.stderr)
    return 0


def _ranker(catalog: str) -> tuple[Ranker, Sequence[Tool]]:
    from . import catalogs, index_data
    from .piece_vectors import table
    from .ranker import Ranker

    tools = catalogs.read(Path(catalog), _complain)
    return Ranker(index_data.build(tools, table())), tools


def _search(arguments: argparse.Namespace) -> int | None:
    query = " ".join(arguments.query)
    if not query.strip():
        return _wrong('pml search: say what the tool should do, such as: pml search "read a file"')
    services = getattr(arguments, "services", None)
    if arguments.catalog:
        ranker, tools = _ranker(arguments.catalog)
    elif services is not None:
        ranker, tools = _own(services)
    else:
        return None
    if not tools:
        return _wrong(NO_CATALOG)
    if arguments.server and arguments.server not in ranker.data.servers:
        return _wrong(f"pml search: {_no_server(arguments.server, ranker.data.servers)}")
    from . import output

    matches = output.matches(ranker, tools, query, arguments)
    (output.print_json if arguments.json else output.print_people)(matches)
    return 0 if matches["matches"] else 1


def _own(services: Any) -> tuple[Ranker, Sequence[Tool]]:
    """The gateway's own catalog."""
    from . import index_data
    from .index import about_servers, tool_of
    from .piece_vectors import table
    from .ranker import Ranker

    about = about_servers(services)
    tools = [tool_of(entry, about.get(entry.server, "")) for entry in services.catalog if not entry.own]
    return Ranker(index_data.build(tools, table())), tools


def _no_server(server: str, known: Sequence[str]) -> str:
    import difflib

    near = difflib.get_close_matches(server, known, n=1)
    remedy = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known)) or 'none'}"
    return f"there is no server {json.dumps(server, ensure_ascii=False)}; {remedy}"
