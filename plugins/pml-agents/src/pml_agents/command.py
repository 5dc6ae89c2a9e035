"""``pml agents``: which there are, one asked, who waits."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pml_hookspecs import Identity, InvalidArguments, RawObject, RunOptions, ToolCall, ToolId
from pml_kit.terminal import print_json, print_table, printable

from .settings import SERVER, Settings

if TYPE_CHECKING:
    from pml_hookspecs import Outcome, Services

    from .settings import Agent


def add(subcommands: Any) -> None:
    """Add the command and its verbs."""
    parser = subcommands.add_parser("agents", help="list agents, ask one, see who waits")
    verbs = parser.add_subparsers(dest="verb", required=True)
    listing = verbs.add_parser("list", help="the agents, and what each does now")
    listing.set_defaults(run_with=_list)
    chat = verbs.add_parser("chat", help="give an agent a task and print its answer")
    chat.add_argument("name", help="the agent")
    chat.add_argument("message", help="what to do; - reads it from standard input")
    chat.add_argument("--context", default="", help="background that it should know")
    chat.add_argument("--parallel", action="store_true", help="do not wait for its turn")
    chat.set_defaults(run_with=_chat)
    queue = verbs.add_parser("queue", help="what runs and what waits, of all gateways that share the store")
    queue.set_defaults(run_with=_queue)
    for verb in (listing, chat, queue):
        verb.add_argument("--json", action="store_true", help="for programs")


async def _list(arguments: argparse.Namespace, services: Services) -> int:
    from .run_queue import all_turns

    settings: Settings = services.settings or Settings()
    turns = await all_turns(services)
    rows = []
    for name, agent in sorted(settings.agents.items()):
        now = turns.get(name, {"runs": [], "waits": []})
        rows.append(
            {
                "name": name,
                "kind": agent.kind,
                "what": _what(agent),
                "description": agent.description,
                "running": len(now["runs"]),
                "waiting": len(now["waits"]),
            }
        )
    if arguments.json:
        print_json({"agents": rows})
    elif not rows:
        _print("There are no agents: [plugins.agents.agents] is empty.")
    else:
        print_table(("agent", "is", "what", "runs", "waits", "description"), [tuple(row_of(row)) for row in rows])
    return 0


def row_of(row: Mapping[str, Any]) -> Sequence[str]:
    """Cells of one agent."""
    return [str(row[key]) for key in ("name", "kind", "what", "running", "waiting", "description")]


def _what(agent: Agent) -> str:
    """Program, host or tool: not the arguments, in which people put tokens."""
    if agent.kind == "command":
        return agent.command[0]
    return urlsplit(agent.url).netloc if agent.kind == "url" else agent.tool


async def _chat(arguments: argparse.Namespace, services: Services) -> int:
    settings: Settings = services.settings or Settings()
    agent = settings.agents.get(arguments.name)
    if agent is None:
        known = ", ".join(sorted(settings.agents)) or "none"
        raise InvalidArguments(f"there is no agent {arguments.name!r}; configured: {known}")
    if agent.kind == "tool" and not arguments.connect:
        raise InvalidArguments(f"{arguments.name!r} is a tool of a server; add --connect, which starts the servers")
    message = sys.stdin.read() if arguments.message == "-" else arguments.message
    given: dict[str, Any] = {"message": message}
    if arguments.context:
        given["context"] = arguments.context
    if arguments.parallel:
        given["parallel"] = True
    call = ToolCall(id="chat", tool=ToolId(f"{SERVER}:{arguments.name}"), arguments=given)
    # Whoever is at the terminal could change the configuration as well.
    session = services.session(Identity(principal="local", scopes=frozenset({"system"})), client="pml")
    options = RunOptions(intent=message[:2000], trigger="manual", agent=arguments.name)
    outcome = await services.run(call, session, options)
    _show(outcome, arguments)
    return 0 if outcome.status.good else 1


def _show(outcome: Outcome, arguments: argparse.Namespace) -> None:
    output = outcome.output
    result = output.value if isinstance(output, RawObject) else output
    content: Any = result.get("structuredContent") if isinstance(result, Mapping) else None
    if not isinstance(content, Mapping):
        content = {}
    error = None if outcome.failure is None else outcome.failure.message
    if arguments.json:
        shown = {name: value for name, value in content.items() if name != "error"}
        status = "success" if outcome.status.good else "failed"
        print_json(
            {
                "agent_name": arguments.name,
                "response": None,
                **shown,
                "status": status,
                "error": error,
                "duration_seconds": outcome.duration_ms / 1000,
            }
        )
        return
    if content.get("response"):
        _print(str(content["response"]))
    if error is not None:
        sys.stderr.write(f"{printable(error)}\n")
    elif (cost_usd := content.get("cost_usd")) is not None:
        sys.stderr.write(f"{outcome.duration_ms / 1000:.1f} s, {cost_usd:.4f} USD\n")


async def _queue(arguments: argparse.Namespace, services: Services) -> int:
    from .run_queue import all_turns

    rows = []
    for name, now in sorted((await all_turns(services)).items()):
        for state, entries in (("running", now["runs"]), ("waiting", now["waits"])):
            rows += [
                {
                    "agent_name": name,
                    "state": state,
                    "execution_id": entry["execution"],
                    "parallel": entry["parallel"],
                    "gateway": entry["gateway"],
                    "seconds": round(max(time.time() - entry["since_s"], 0), 1),
                }
                for entry in entries
            ]
    if arguments.json:
        print_json({"queue": rows})
    elif not rows:
        _print("No agent runs, and nobody waits for one.")
    else:
        names = ("agent_name", "state", "execution_id", "parallel", "gateway", "seconds")
        print_table(names, [tuple(str(row[name]) for name in names) for row in rows])
    return 0


def _print(text: str) -> None:
    lines = text.splitlines() or [""]
    sys.stdout.write("".join(printable(line, keep="\t") + "\n" for line in lines))
