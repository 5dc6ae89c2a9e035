"""``pml advise``: the exposure mode and preset that suit this catalog and this history."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments
from pml_kit.terminal import print_json

from . import queries
from .counting import counter
from .evaluation import SEARCH, Row, evaluate
from .modes import Sizes, variants
from .output import number, say, share
from .tokens import Cost, current, measure, tools_of

if TYPE_CHECKING:
    import argparse

    from pml_hookspecs import Services

LITTLE = 0.05
"""A share of the context that is not worth saving."""
RELIABLE = 0.8
"""Share of the tools needed that search finds among ten, for an agent to rely on it."""
OFTEN = 20
"""Tools that may be listed in any case."""
MOSTLY = 0.8
"""Share of the calls that so few tools must account for, for a list of them to help."""
SAMPLE = 60
LEAST_CONTEXT = 1000


@dataclass(frozen=True, slots=True)
class Facts:
    """What the advice rests on."""

    context: int
    full: float
    """Tokens of all tools."""
    recall: float
    """Share of the tools needed that search finds among ten."""
    measured_on: str
    """Where the queries are from."""
    favourites: tuple[str, ...]
    """The tools called most, at most :data:`OFTEN`."""
    covered: float
    """Share of all calls that they account for."""
    calls: int


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do, and why."""

    preset: str
    reasons: tuple[str, ...]
    whitelist: tuple[str, ...] = ()


async def run(arguments: argparse.Namespace, services: Services) -> int:
    """Print the advice; the exit status.

    Raises:
        InvalidArguments: There is nothing to base it on.
    """
    if arguments.context < LEAST_CONTEXT:
        raise InvalidArguments(f"--context {arguments.context}: give your model's context, {LEAST_CONTEXT} or more.")
    theirs = tools_of(services)
    modes, sizes = await variants(services), Sizes(services, counter(arguments.tokenizer))
    costs = await measure(modes, services, sizes)
    asked = await queries.gather(services, file=None, source=None, limit=SAMPLE)
    found = {row.name: row for row in await evaluate(modes, services, sizes, asked.items)}
    counts = await _calls(services)
    favourites = tuple(tool for tool, _ in counts.most_common(OFTEN))
    calls = sum(counts.values())
    facts = Facts(
        arguments.context,
        sizes.all(theirs),
        found[SEARCH].values["recall@10"],
        asked.source,
        favourites,
        sum(counts[tool] for tool in favourites) / calls if calls else 0.0,
        calls,
    )
    advice = advise(facts)
    if arguments.json:
        print_json(_document(advice, facts, costs, found))
    else:
        _show(advice, facts, costs)
    return 0


def advise(facts: Facts) -> Advice:
    """The preset for these facts: as little context as can be had without losing tools."""
    share_of_context = facts.full / facts.context
    cost = f"All tools of your servers cost {number(facts.full)} tokens, {share(share_of_context)} of your context"
    if share_of_context <= LITTLE:
        return Advice("full_proxy", (f"{cost}: there is little to save, so show them all.",))
    reasons = [f"{cost}: more than {share(LITTLE)}, so they should not all be listed."]
    how = f"finds {share(facts.recall)} of the tools needed among its first ten"
    if facts.measured_on == "generated":
        how += " (for queries made of descriptions, which flatter it)"
    if facts.calls >= OFTEN and facts.covered >= MOSTLY:
        few = f"{len(facts.favourites)} tools account for {share(facts.covered)} of your {number(facts.calls)} calls"
        reasons.append(f"{few}: list them in any case, and find the others by search.")
        return Advice("hybrid_balanced", tuple(reasons), facts.favourites)
    if facts.recall >= RELIABLE and facts.measured_on != "generated":
        reasons.append(f"Search {how}, measured on your own history: agents can rely on it.")
        return Advice("meta_only", tuple(reasons))
    if facts.recall >= RELIABLE:
        reasons.append(f"Search {how}. Your history is too short to tell more: begin with some tools listed.")
        return Advice("hybrid_balanced", tuple(reasons))
    reasons.append(f"Search {how}, less than {share(RELIABLE)}: list more tools, and let clients say what they do.")
    return Advice("hybrid_permissive", tuple(reasons))


async def _calls(services: Services) -> Counts[str]:
    """How often each tool that there is was called."""
    known = {entry.id for entry in services.catalog if not entry.own}
    counts: Counts[str] = Counts()
    async for record in queries.records(services):
        if record.kind == "tool" and record.target in known:
            counts[record.target] += 1
    return counts


def _document(advice: Advice, facts: Facts, costs: Sequence[Cost], rows: Mapping[str, Row]) -> dict[str, Any]:
    return {
        "preset": advice.preset,
        "reasons": list(advice.reasons),
        "whitelisted_tools": list(advice.whitelist),
        "facts": {
            "context": facts.context,
            "all_tools_tokens": facts.full,
            "search_recall@10": facts.recall,
            "measured_on": facts.measured_on,
            "calls": facts.calls,
            "calls_of_favourites": facts.covered,
        },
        "now": current(costs).as_json(),
        "modes": [cost.as_json() for cost in costs],
        "found": [row.as_json() for row in rows.values()],
    }


def _show(advice: Advice, facts: Facts, costs: Sequence[Cost]) -> None:
    now, then = current(costs), next((cost for cost in costs if cost.variant.name == advice.preset), None)
    say(f"Preset: {advice.preset}")
    for reason in advice.reasons:
        say(f"  {reason}")
    say(f"  Now, {now.variant.mode} costs {_cost(now, facts)}.")
    if then is not None:
        say(f"  {advice.preset} would cost {_cost(then, facts)}.")
    say()
    say(f"Do it:      pml config --preset {advice.preset}")
    if advice.whitelist:
        names = ", ".join(f'"{name}"' for name in advice.whitelist)
        say(f"And add:    [plugins.hybrid] whitelisted_tools = [{names}]")
    say("Or choose:  pml config --wizard")
    say("Compare:    pml tokens, pml eval")


def _cost(cost: Cost, facts: Facts) -> str:
    return f"{number(cost.typical)} tokens, {share(cost.typical / facts.context)} of your context"
