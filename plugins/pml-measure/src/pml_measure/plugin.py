"""The hook plugin ``measure``. Imported by every ``pml --help``, so nothing heavy is."""

from __future__ import annotations

import importlib
from functools import partial
from typing import TYPE_CHECKING, Any

from pml_hookspecs import hookimpl

if TYPE_CHECKING:
    import argparse

    from pml_hookspecs import Services

TOKENIZERS = ("auto", "estimate", "openai", "llama", "gemma", "qwen", "mistral", "deepseek")


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """Add ``pml tokens``, ``pml advise``, ``pml eval`` and ``pml metrics``."""
    tokens = _command(subcommands, "tokens", "tokens", "what each exposure mode costs on your own catalog")
    tokens.add_argument("--top", type=int, default=10, metavar="N", help="tools to show, the largest first")
    advise = _command(subcommands, "advise", "advice", "which exposure mode and preset suit you, and why")
    advise.add_argument("--context", type=int, default=100_000, metavar="TOKENS", help="your model's context [tokens]")
    _add_eval(_command(subcommands, "eval", "eval_command", "how well search and modes find tools on your own catalog"))
    metrics = _command(subcommands, "metrics", "metrics_command", "how tools were reached, from your own history")
    metrics.add_argument("--days", type=int, default=30, metavar="N", help="how far to look back [days]")
    metrics.add_argument("--watch", action="store_true", help="show it while it happens; with --json a line each time")
    metrics.add_argument(
        "--interval", type=float, default=2.0, metavar="S", help="with --watch: time between looks [s]"
    )


def _command(subcommands: Any, name: str, module: str, about: str) -> argparse.ArgumentParser:
    text = about[0].upper() + about[1:] + ". Everything is computed here; nothing leaves the machine."
    parser: argparse.ArgumentParser = subcommands.add_parser(name, help=about, description=text)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument(
        "--tokenizer",
        choices=TOKENIZERS,
        default="auto",
        help="whose tokens; auto: openai if pml-measure[tokenizers] is installed, else an estimate",
    )
    parser.set_defaults(run_with=partial(_run, module))
    return parser


def _add_eval(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queries", metavar="FILE", help='JSON lines of {"query": "…", "gold": ["server:tool", …]}')
    parser.add_argument(
        "--from",
        dest="source",
        choices=("history", "generated"),
        help="queries of your own history, or made of descriptions; the history if there is enough of it",
    )
    parser.add_argument("--limit", type=int, default=200, metavar="N", help="queries at most")
    parser.add_argument(
        "--floor",
        action="append",
        default=[],
        metavar="METRIC=VALUE",
        help="exit status 1 below it, such as recall@5=0.7, or hybrid_balanced.listed=0.5 for one row; may be repeated",
    )
    parser.add_argument("--only", metavar="ROW", help="search, and this row; search for the search alone")
    parser.add_argument("--details", action="store_true", help="with --json: what the search found for each query")
    parser.add_argument(
        "--compare-embedder", action="store_true", help="the search with and without the configured embedder"
    )
    parser.add_argument(
        "--wait", type=float, default=600.0, metavar="S", help="with --compare-embedder: for the tools' vectors [s]"
    )


async def _run(module: str, arguments: argparse.Namespace, services: Services) -> int:
    """Hand over to the module of the command, which only that command imports."""
    status: int = await importlib.import_module(f".{module}", __package__).run(arguments, services)
    return status
