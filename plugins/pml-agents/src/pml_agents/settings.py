"""``[plugins.agents]``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from pml_hookspecs import GATEWAY_SERVER, setting, split_tool_id

SERVER = "agents"
"""The server that agents are tools of."""
KIB, MIB = 1 << 10, 1 << 20
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]|_(?!_)){0,47}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MESSAGE, CONTEXT = "{message}", "{context}"
Kind = Literal["command", "url", "tool"]
Parser = Literal["", "text", "json", "stream-json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Where in the output things stand; each is a JMESPath expression."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    response: str = setting("", "Its answer: a text; anything else is shown as JSON.")
    error: str = setting("", "Why it failed: a text; null, false or empty when it did not.")
    cost_usd: str = setting("", "What it cost [USD].")
    tokens_in: str = setting("", "Tokens that its models read [tokens].")
    tokens_out: str = setting("", "Tokens that its models wrote [tokens].")
    context_used: str = setting("", "How full its context was at the end [tokens].")
    context_max: str = setting("", "How much fits into its context [tokens].")
    model: str = setting("", "The model that did most of the work.")
    transcript: str = setting("", "What it said and did: a list.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """One of ``agents``: exactly one of ``command``, ``url`` and ``tool``, and how to talk with it."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    description: str = setting("", "What it is good at, for those who choose among tools.")
    command: tuple[str, ...] = setting(
        (), "A program and its arguments; {message} stands for the message, which comes on standard input otherwise."
    )
    url: str = setting("", "An HTTP endpoint that the message is posted to, as JSON.")
    tool: str = setting("", "An MCP tool, <server>:<tool>, that the message is an argument of.")

    cwd: str = setting("", "Working folder of the command; the gateway's own if empty.")
    env: dict[str, str] = setting(
        dict,
        "Variables for the command, besides PATH, HOME and LANG; ${NAME} refers to the gateway's own.",
        secret=True,
    )
    inherit: tuple[str, ...] = setting((), "Names of the gateway's variables that the command gets; not for secrets.")

    headers: dict[str, str] = setting(dict, "HTTP headers for the url.", secret=True)
    token: str = setting("", "Bearer token for the url.", secret=True)
    body: dict[str, Any] = setting(
        dict, "Other members of what is posted; with {message} in one of its texts, the message stands only there."
    )
    attempts: int = setting(3, "How often a url is tried that surely did not begin with the message; 1 to 10.")

    argument: str = setting("message", "Argument of the tool that takes the message.")
    arguments: dict[str, Any] = setting(dict, "Other arguments of the tool.")

    parser: Parser = setting("", "What the output is; text for a command, and for a url as its content type says.")
    fields: Fields = setting(Fields(), "Where in JSON output things stand, where that is not where they usually do.")
    model: str = setting("", "The model it uses, where its output does not say so; for prices.")
    timeout_s: float = setting(600.0, "Longest time of one run, waiting for its turn not counted [s].")
    max_output_bytes: int = setting(8 * MIB, "Output that is kept; more is left out, and said so [bytes].")
    max_parallel: int = setting(4, "Most runs at a time, those included that were asked to run in parallel.")
    max_queue: int = setting(32, "Most that wait for their turn; further ones are refused.")
    read_only: bool = setting(default=False, description="Say that it changes nothing, so that nobody need be asked.")

    def __post_init__(self) -> None:
        """Refuse what types cannot.

        Raises:
            ValueError: Names every mistake.
        """
        problems = list(_problems(self))
        if problems:
            raise ValueError("; ".join(problems))

    @property
    def kind(self) -> Kind:
        """Which of the three it is."""
        return "command" if self.command else "url" if self.url else "tool"


OF_KIND: Mapping[str, Kind] = {
    "cwd": "command", "env": "command", "inherit": "command",
    "headers": "url", "token": "url", "body": "url",
    "arguments": "tool",
}  # fmt: skip
"""What means something for one kind only."""


def _problems(agent: Agent) -> Iterator[str]:
    given = [kind for kind in ("command", "url", "tool") if getattr(agent, kind)]
    if len(given) != 1:
        yield f"says {' and '.join(given) or 'neither command nor url nor tool'}; it needs exactly one of them"
        return
    for name, kind in OF_KIND.items():
        if getattr(agent, name) and kind != given[0]:
            yield f"{name} means nothing for a {given[0]}"
    yield from _problems_of_kind(agent)
    if not 0 < agent.timeout_s < float("inf"):
        yield f"timeout_s is {agent.timeout_s}; it must be more than 0"
    bounds = {"attempts": (1, 10), "max_parallel": (1, 1000), "max_queue": (0, 10_000)}
    for name, (least, most) in bounds.items():
        if not least <= getattr(agent, name) <= most:
            yield f"{name} is {getattr(agent, name)}; it must be {least} to {most}"
    if not KIB <= agent.max_output_bytes <= KIB * MIB:
        yield "max_output_bytes must be 1024 bytes to 1 GiB"
    yield from _problems_of_fields(agent.fields)


def _problems_of_kind(agent: Agent) -> Iterator[str]:
    if agent.command and not agent.command[0]:
        yield "command begins with an empty text"
    if agent.url:
        parts = urlsplit(agent.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            yield "url must begin with http:// or https:// and name a host"
        elif parts.username or parts.password:
            yield "url holds a user name or password; give token or headers instead"
    if agent.tool:
        server, name = split_tool_id(agent.tool)
        if not server or not name:
            yield f"tool is {agent.tool!r}; write <server>:<tool>"
        elif server in (SERVER, GATEWAY_SERVER):
            yield f"tool {agent.tool!r} is one of the gateway's own; an agent that asks itself never ends"
        if not agent.argument or agent.argument in agent.arguments:
            yield "argument must name an argument of the tool that is not among arguments"
    wrong = [name for name in (*agent.env, *agent.inherit) if not VARIABLE.fullmatch(name)]
    yield from (f"{name!r} is no name of a variable" for name in wrong)


def _problems_of_fields(paths: Fields) -> Iterator[str]:
    for field in fields(paths):
        expression = getattr(paths, field.name)
        if not expression:
            continue
        from jmespath import compile as read
        from jmespath.exceptions import JMESPathError

        try:
            read(expression)
        except JMESPathError as exc:
            yield f"fields.{field.name} is no JMESPath expression: {str(exc).splitlines()[0]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """``[plugins.agents]``: the agents, by name."""

    agents: dict[str, Agent] = setting(dict, "Agents by name; each is the tool agents:<name>.", secret=True)
    listed: bool = setting(default=True, description="List chat_with_agent with the meta-tools, if there are agents.")
    transcript_bytes: int = setting(
        4 * MIB, "Longest transcript kept of one run; its middle is left out of a longer one [bytes].", ge=KIB
    )

    def __post_init__(self) -> None:
        """Refuse names that cannot be part of a tool's.

        Raises:
            ValueError: Names every one.
        """
        wrong = [name for name in self.agents if not NAME.fullmatch(name)]
        if wrong:
            names = ", ".join(map(repr, wrong))
            raise ValueError(f"{names}: an agent's name is 1 to 48 letters, digits, '.', '-' and single '_'")
