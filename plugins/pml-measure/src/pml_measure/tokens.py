"""``pml tokens``: what each exposure mode puts into a client's context."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments
from pml_kit.terminal import print_json

from . import queries
from .counting import Counter, counter
from .modes import CONFIGURED, Sizes, Variant, variants
from .output import number, print_table, say, share

if TYPE_CHECKING:
    import argparse

    from pml_hookspecs import CatalogEntry, Services

HINTS = 20
"""Hints that modes which choose by them are tried with."""
LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class Cost:
    """What one mode costs."""

    variant: Variant
    tools: int
    """Listed without a hint."""
    tokens: int
    hinted_tools: float
    """Listed with a hint, in the mean."""
    hinted_tokens: float
    most_tokens: int
    """With the hint that costs the most."""

    @property
    def chooses(self) -> bool:
        """Whether a hint makes a difference."""
        return (self.tools, self.tokens) != (self.hinted_tools, self.hinted_tokens)

    @property
    def typical(self) -> float:
        """With a hint if that makes a difference [tokens]."""
        return self.hinted_tokens

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        hinted = {"tools_mean": self.hinted_tools, "tokens_mean": self.hinted_tokens, "tokens_most": self.most_tokens}
        return {
            "name": self.variant.name,
            "mode": self.variant.mode,
            "tools": self.tools,
            "tokens": self.tokens,
            "with_a_hint": hinted if self.chooses else None,
        }


async def run(arguments: argparse.Namespace, services: Services) -> int:
    """Print the tables; the exit status.

    Raises:
        InvalidArguments: There is nothing to measure, or not with what was asked for.
    """
    if arguments.top < 0:
        raise InvalidArguments(f"--top {arguments.top}: give 0 or more.")
    count = counter(arguments.tokenizer)
    theirs = tools_of(services)
    sizes = Sizes(services, count)
    costs = await measure(await variants(services), services, sizes)
    if arguments.json:
        print_json(_document(costs, theirs, sizes, count, arguments.top))
    else:
        _show(costs, theirs, sizes, count, arguments.top)
    return 0


def tools_of(services: Services) -> list[CatalogEntry]:
    """The servers' tools.

    Raises:
        InvalidArguments: There are none.
    """
    theirs = [entry for entry in services.catalog if not entry.own]
    if not theirs:
        servers = services.catalog.servers()
        remedy = (
            "run this once with --connect, so that they are listed" if servers else "pml import takes over a client's"
        )
        what = "no tools of your servers are known" if servers else "no servers are configured"
        raise InvalidArguments(f"{what}; {remedy}.")
    return theirs


async def measure(modes: Sequence[Variant], services: Services, sizes: Sizes) -> list[Cost]:
    """The cost of each mode, without a hint and with those of a sample."""
    history = await queries.from_history(services)
    sample = history if len(history) >= queries.ENOUGH else queries.generated(services.catalog)
    return [await _cost(mode, services, sizes, [query.text for query in sample[:HINTS]]) for mode in modes]


async def _cost(mode: Variant, services: Services, sizes: Sizes, hints: Sequence[str]) -> Cost:
    plain = await mode.listed(services)
    lists = [await mode.listed(services, hint) for hint in hints] if not mode.intent else []
    tokens = [sizes.all(listed) for listed in lists] or [sizes.all(plain)]
    tools = [len(listed) for listed in lists] or [len(plain)]
    return Cost(mode, len(plain), sizes.all(plain), fmean(tools), fmean(tokens), max(tokens))


def _document(
    costs: Sequence[Cost], theirs: list[CatalogEntry], sizes: Sizes, count: Counter, top: int
) -> dict[str, Any]:
    return {
        "tokenizer": count.as_json(),
        "catalog": {"tools": len(theirs), "tokens": sizes.all(theirs)},
        "modes": [cost.as_json() for cost in costs],
        "servers": [{"server": name, "tools": n, "tokens": t} for name, n, t in _servers(theirs, sizes)],
        "tools": [{"tool": e.id, "tokens": sizes.of(e)} for e in _largest(theirs, sizes, top)],
    }


def _servers(theirs: list[CatalogEntry], sizes: Sizes) -> list[tuple[str, int, int]]:
    """Name, tools and tokens of each, the largest first."""
    groups: dict[str, list[CatalogEntry]] = defaultdict(list)
    for entry in theirs:
        groups[entry.server].append(entry)
    rows = [(name, len(entries), sizes.all(entries)) for name, entries in groups.items()]
    return sorted(rows, key=lambda row: (-row[2], row[0]))


def _largest(theirs: list[CatalogEntry], sizes: Sizes, top: int) -> list[CatalogEntry]:
    return sorted(theirs, key=lambda entry: (-sizes.of(entry), entry.id))[:top]


def _show(costs: Sequence[Cost], theirs: list[CatalogEntry], sizes: Sizes, count: Counter, top: int) -> None:
    total = sizes.all(theirs)
    rows = [
        (
            _label(cost.variant),
            str(cost.tools),
            number(cost.tokens),
            f"{cost.hinted_tools:.0f}" if cost.chooses else "",
            number(cost.hinted_tokens) if cost.chooses else "",
            number(cost.most_tokens) if cost.chooses else "",
            share(cost.typical / total if total else 0),
        )
        for cost in costs
    ]
    print_table(("MODE", "TOOLS", "TOKENS", "TOOLS WITH HINT", "TOKENS WITH HINT", "AT MOST", "OF ALL"), rows)
    say()
    servers = [(name, str(n), number(t), share(t / total)) for name, n, t in _servers(theirs, sizes)]
    print_table(("SERVER", "TOOLS", "TOKENS", "OF ALL"), servers)
    if top:
        say()
        print_table(
            ("TOOL", "TOKENS"), [(e.id[:LONGEST_NAME], number(sizes.of(e))) for e in _largest(theirs, sizes, top)]
        )
    say()
    say(f"{len(theirs)} tools of servers. Counted are name, description and parameters, which is what models read.")
    say("OF ALL is of the list. A task saves less: what is not listed costs a search and a request more (pml eval).")
    say(count.about)


def _label(variant: Variant) -> str:
    return variant.name if variant.name == variant.mode else f"{variant.name} ({variant.mode})"


def current(costs: Sequence[Cost]) -> Cost:
    """What is configured."""
    return next(cost for cost in costs if cost.variant.name == CONFIGURED)
