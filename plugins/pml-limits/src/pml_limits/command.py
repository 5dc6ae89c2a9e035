"""``pml limits``: rules, and how much of them is used."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pml_kit.terminal import print_json, print_table

from .settings import PATTERNS, Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services

    from .settings import Rule
    from .usage import LimitUsage


def add(subcommands: Any) -> None:
    """Add the command and its verb."""
    parser = subcommands.add_parser("limits", help="see limits and how much of them is used")
    verbs = parser.add_subparsers(dest="verb", required=True)
    show = verbs.add_parser("show", help="rules, and how much of each is used now")
    show.add_argument("--json", action="store_true", help="for programs")
    show.set_defaults(run_with=_show)


async def _show(arguments: argparse.Namespace, services: Services) -> int:
    from .usage import all_uses

    settings: Settings = services.settings or Settings()
    uses = await all_uses(services, settings)
    if arguments.json:
        rules = {name: asdict(rule) for name, rule in settings.rules.items()}
        print_json({"shared": settings.shared, "rules": rules, "use": [use.plain() for use in uses]})
    elif not settings.rules:
        sys.stdout.write("Nothing is limited: there are no [plugins.limits.rules].\n")
    else:
        _show_tables(settings.rules, uses, shared=settings.shared)
    return 0


def _show_tables(rules: Mapping[str, Rule], uses: Sequence[LimitUsage], *, shared: bool) -> None:
    print_table(
        ("rule", "of", "for each", "allows"),
        [(name, _scope(rule), ", ".join(rule.per) or "-", _allows(rule)) for name, rule in rules.items()],
    )
    if not uses:
        sys.stdout.write("Nothing of it is used just now.\n")
        return
    columns = ("rule", "for", "what", "used", "of", *(() if shared else ("counted by",)))
    rows = []
    for use in uses:
        whose = ", ".join(f"{part} {value}" for part, value in use.whose.items()) or "all"
        shown = (use.rule, whose, use.what, f"{use.used:g}", f"{use.allowed:g}", use.gateway or "all")
        rows.append(shown[: len(columns)])
    print_table(columns, rows)


def _scope(rule: Rule) -> str:
    named = [f"{part} {getattr(rule, part)}" for part in PATTERNS if getattr(rule, part) != "*"]
    if rule.kind != "tool":
        named.insert(0, rule.kind)
    return ", ".join(named) or "all calls"


def _allows(rule: Rule) -> str:
    allowed = [rule.rate] if rule.rate else []
    if rule.concurrency:
        queued = f" (queue {rule.queue_s:g} s)" if rule.queue_s else ""
        allowed.append(f"{rule.concurrency} at a time{queued}")
    if rule.time_out_s:
        allowed.append(f"{rule.time_out_s:g} s each")
    if rule.daily_usd:
        allowed.append(f"{rule.daily_usd:g} USD a day")
    return ", ".join(allowed)
