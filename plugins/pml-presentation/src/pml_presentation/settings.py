"""``[plugins.presentation]``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pml_hookspecs import GATEWAY_SERVER, encode, setting, split_tool_id

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""What the strictest clients take for a tool's name."""
WILD = re.compile(r"[*?\[]")
OF_TOOLSET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One of ``tools``: how it is shown, and what it is called with."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    name: str = setting("", "What clients call it, with no server before it; as without this table if empty.")
    title: str = setting("", "Its title for people; the server's if empty.")
    description: str = setting("", "What is said about it; what the server says if empty.")
    hidden: bool = setting(default=False, description="Leave it out of lists and searches; it can still be called.")
    arguments: dict[str, Any] = setting(
        dict, "Arguments that every call has with these values; clients neither see them nor can change them."
    )
    defaults: dict[str, Any] = setting(
        dict, "Arguments that a call has with these values where it does not give them itself."
    )
    tags: tuple[str, ...] = setting((), "Words by which toolsets take it in.")

    def __post_init__(self) -> None:
        """Refuse what types cannot.

        Raises:
            ValueError: Names every mistake.
        """
        if problems := list(_problems_of_tool(self)):
            raise ValueError("; ".join(problems))


def _problems_of_tool(tool: Tool) -> Iterator[str]:
    if tool.name and not NAME.fullmatch(tool.name):
        yield f"name {tool.name!r} is none that clients take: 1 to 64 letters, digits, '_', '.' and '-'"
    for member in ("arguments", "defaults"):
        for name, value in getattr(tool, member).items():
            if not _is_json(value):
                yield f"{member}.{name} cannot be written as JSON; write a time as text"
    if both := sorted({*tool.arguments} & {*tool.defaults}):
        yield f"{', '.join(both)} has both a fixed value and a default; keep one of them"


def _is_json(value: Any) -> bool:
    try:
        return bool(json.loads(encode(value)) == value) and value == value  # noqa: PLR0124 - NaN is no JSON
    except (RecursionError, TypeError, ValueError):
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolset:
    """One of ``toolsets``: what fits any of the first three is in it, but for what ``without`` names."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    servers: tuple[str, ...] = setting((), "Servers all of whose tools, resources and prompts are in it.")
    tools: tuple[str, ...] = setting((), "Tools in it, as patterns such as 'shop:list_*'.")
    tags: tuple[str, ...] = setting((), "Tools in it, by the tags that [plugins.presentation.tools] gives them.")
    without: tuple[str, ...] = setting((), "Tools that are not, as patterns, whatever else is said.")

    def __post_init__(self) -> None:
        """Refuse what types cannot.

        Raises:
            ValueError: Names every mistake.
        """
        if problems := list(_problems_of_toolset(self)):
            raise ValueError("; ".join(problems))


def _problems_of_toolset(toolset: Toolset) -> Iterator[str]:
    if not (toolset.servers or toolset.tools or toolset.tags):
        yield "nothing is in it; give servers, tools or tags"
    for member in ("tools", "without"):
        for pattern in getattr(toolset, member):
            server, own = split_tool_id(pattern)
            if not (server and own):
                yield f"{member}: no tool is called {pattern!r}; give SERVER:TOOL, such as 'shop:list_*' or '*:list'"
    for server in toolset.servers:
        if ":" in server or WILD.search(server):
            yield f"servers: {server!r} is no server's name; patterns such as '{server.rstrip(':*')}*:*' go into tools"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How tools are shown, and which of them to whom."""

    tools: dict[str, Tool] = setting(dict, "How a tool is shown and called, by its id, such as 'shop:list_orders'.")
    toolsets: dict[str, Toolset] = setting(dict, "Sets of tools by name, which endpoints and keys choose.")
    endpoints: dict[str, tuple[str, ...]] = setting(
        dict, "Toolsets of which the clients of an endpoint may have the tools, and no others, by its name."
    )
    keys: dict[str, tuple[str, ...]] = setting(
        dict,
        "The same of keys, by id or by whose they are; a pattern counts for those that are not named, the first that "
        "fits. Endpoint and key may both choose: then only what both have may be had.",
    )

    def __post_init__(self) -> None:
        """Refuse what no table alone can know.

        Raises:
            ValueError: Names every mistake.
        """
        problems = [*_problems_of_ids(self.tools), *clashes(self.tools), *_problems_of_choice(self)]
        if problems:
            raise ValueError("; ".join(problems))


def _problems_of_ids(tools: Mapping[str, Tool]) -> Iterator[str]:
    for id in tools:
        server, own = split_tool_id(id)
        if not (server and own):
            yield f"tools: no tool is called {id!r}; give SERVER:TOOL, such as 'shop:list_orders'"
        elif WILD.search(id):
            yield f"tools: {id!r} is a pattern; a table is about one tool, and patterns go into toolsets"
        elif server == GATEWAY_SERVER:
            yield f"tools: {id!r} is the gateway's own, which is shown as it is"


def clashes(tools: Mapping[str, Tool]) -> Iterator[str]:
    """Tools that would have one name for clients, as far as that can be known without their servers."""
    taken: dict[str, str] = {}
    for id, tool in sorted(tools.items(), key=lambda item: not item[1].name):
        name = tool.name or "__".join(split_tool_id(id))
        if (other := taken.setdefault(name, id)) != id:
            yield f"tools: {other!r} and {id!r} would both be called {name!r}; give one of them another name"


def _problems_of_choice(settings: Settings) -> Iterator[str]:
    tags = {tag for tool in settings.tools.values() for tag in tool.tags}
    for name, toolset in settings.toolsets.items():
        if not OF_TOOLSET.fullmatch(name):
            yield f"toolsets: {name!r} is no name; write letters, digits, '.', '-' and '_'"
        if unknown := sorted({*toolset.tags} - tags):
            yield f"toolsets.{name}.tags: no tool has {', '.join(map(repr, unknown))}; give it one under tools"
    known = ", ".join(sorted(settings.toolsets)) or "none"
    for member in ("endpoints", "keys"):
        for of, chosen in getattr(settings, member).items():
            if unknown := sorted({*chosen} - {*settings.toolsets}):
                yield f"{member}.{of}: there is no toolset {', '.join(map(repr, unknown))}; there are: {known}"
