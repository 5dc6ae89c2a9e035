"""``pml access``: whose agents are, who else may use them, and whom they may call."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments
from pml_kit.terminal import print_table

from .output import operator, say, say_json

if TYPE_CHECKING:
    from pml_hookspecs import Services

    from .agents import Agents

COLUMNS = ("agent", "owner", "shared with", "may call", "said by")
VERBS = {
    "own": ("give an agent to a person: from then on only those it is shared with may use it, too", "user"),
    "disown": ("make an agent everybody's", ""),
    "share": ("let another person call an agent and see what it ran", "user"),
    "unshare": ("take that back", "user"),
    "permit": ("let an agent call another one, and list its executions", "other"),
    "forbid": ("take that back", "other"),
}


def add(subcommands: Any) -> None:
    """Add the command and its verbs."""
    parser = subcommands.add_parser("access", help="say whose agents are, and who may use them")
    verbs = parser.add_subparsers(dest="verb", required=True)
    shown = verbs.add_parser("show", help="all agents of which something is said, or one")
    shown.add_argument("agent", nargs="?", help="its name")
    shown.set_defaults(run_with=_show)
    for name, (help, second) in VERBS.items():
        verb = verbs.add_parser(name, help=help)
        verb.add_argument("agent", help="its name")
        if second:
            verb.add_argument("other", metavar=second, help="a person" if second == "user" else "another agent's name")
        verb.set_defaults(run_with=_change, other="")
    for verb in verbs.choices.values():
        verb.add_argument("--json", action="store_true", help="for programs")


def _agents(services: Services) -> Agents:
    from .agents import Agents
    from .settings import Settings

    return Agents(services, services.settings or Settings())


async def _show(arguments: argparse.Namespace, services: Services) -> int:
    from .agents import NO_RULE

    agents = _agents(services)
    rules = await agents.current()
    names = sorted(rules) if arguments.agent is None else [arguments.agent]
    shown = [rules.get(name, NO_RULE).shown(name, declared=name in agents.declared) for name in names]
    if arguments.json:
        say_json(shown if arguments.agent is None else shown[0])
    elif not shown:
        say("Nothing is said of any agent: everybody may call all of them, and agents with keys none.")
    else:
        print_table(COLUMNS, [_row(one) for one in shown], whole=COLUMNS[:1])
    return 0


def _row(shown: dict[str, Any]) -> tuple[str, ...]:
    lists = (", ".join(shown["shared_with"]) or "-", ", ".join(shown["permits"]) or "-")
    return (shown["agent"], shown["owner"] or "everybody", *lists, "settings" if shown["declared"] else "pml access")


async def _change(arguments: argparse.Namespace, services: Services) -> int:
    from .agents import ConfiguredRuleError, problem_of
    from .events import note_done

    agent, other = arguments.agent, arguments.other
    if problem := problem_of([agent, other] if other else [agent]):
        raise InvalidArguments(problem)
    agents = _agents(services)
    try:
        rule = await agents.change(agent, **_change_of(arguments.verb, other))
    except ConfiguredRuleError:
        raise InvalidArguments(
            f"[plugins.access.agents.{agent}] of the configuration says all about {agent}; change it there"
        ) from None
    await note_done(services, "agent.changed", by=operator(), verb=arguments.verb, agent=agent, other=other or None)
    shown = rule.shown(agent, declared=False)
    if arguments.json:
        say_json(shown)
    else:
        print_table(COLUMNS, [_row(shown)], whole=COLUMNS[:1])
    return 0


def _change_of(verb: str, other: str) -> dict[str, Callable[[Any], Any]]:
    """What becomes of the members of a rule."""
    changes: dict[str, dict[str, Callable[[Any], Any]]] = {
        "own": {"owner": lambda _: other},
        "disown": {"owner": lambda _: ""},
        "share": {"shared_with": lambda before: before | {other}},
        "unshare": {"shared_with": lambda before: before - {other}},
        "permit": {"permits": lambda before: before | {other}},
        "forbid": {"permits": lambda before: before - {other}},
    }
    return changes[verb]
