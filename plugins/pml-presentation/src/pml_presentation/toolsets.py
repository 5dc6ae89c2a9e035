"""Toolsets: who has chosen some may have the tools in them, and no others."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from pml_hookspecs import split_tool_id

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, Session

    from .settings import Settings, Toolset

NO_TOOL = "@"
"""Begins what stands for a resource, a prompt or a method where tools are named."""
WHOLE = "*"
MOST_KEYS = 4096
"""Keys of which it is remembered what they have chosen."""


class ToolsetMatcher:
    """Says what is in one toolset."""

    def __init__(self, toolset: Toolset, tagged: Mapping[str, Iterable[str]]) -> None:
        """``tagged`` has the ids of the tools with each tag."""
        self._servers = frozenset(toolset.servers)
        self._ids = frozenset(id for tag in toolset.tags for id in tagged[tag])
        self._tools = [_halves(pattern) for pattern in toolset.tools]
        self._without = [_halves(pattern) for pattern in toolset.without]
        whole = (pattern for pattern in toolset.tools if split_tool_id(pattern)[1] == WHOLE)
        self._whole = [_halves(pattern) for pattern in whole]

    def __contains__(self, entry: CatalogEntry) -> bool:
        """Whether a tool, or what stands for a resource, a prompt or a method, is in it.

        What is no tool is in it with the whole of its server alone: nothing that a client writes into a URI can pass
        for the name of a tool.
        """
        server, own = split_tool_id(entry.id)
        if any(_fits(pattern, server, own) for pattern in self._without):
            return False
        if server in self._servers:
            return True
        if own.startswith(NO_TOOL):
            return any(of_server.fullmatch(server) for of_server, _ in self._whole)
        return entry.id in self._ids or any(_fits(pattern, server, own) for pattern in self._tools)


def _halves(pattern: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Held to the halves of an id each, so that the name of a tool cannot pass for one of a server."""
    server, own = split_tool_id(pattern)
    return re.compile(fnmatch.translate(server)), re.compile(fnmatch.translate(own))


def _fits(pattern: tuple[re.Pattern[str], re.Pattern[str]], server: str, own: str) -> bool:
    return bool(pattern[0].fullmatch(server) and pattern[1].fullmatch(own))


class ToolsetFilter:
    """Keeps what is in a toolset that the endpoint has chosen, and in one that the key has.

    Implements `pml_hookspecs.ToolFilter`. Where neither has chosen any, it keeps everything. The gateway's own tools
    are in every toolset: they do nothing but with tools that are judged by themselves.
    """

    hides = True

    def __init__(self, settings: Settings) -> None:
        tagged: dict[str, list[str]] = {}
        for id, tool in settings.tools.items():
            for tag in tool.tags:
                tagged.setdefault(tag, []).append(id)
        made = {name: ToolsetMatcher(toolset, tagged) for name, toolset in settings.toolsets.items()}
        self._endpoints = {of: [made[name] for name in chosen] for of, chosen in settings.endpoints.items()}
        self._keys = {of: [made[name] for name in chosen] for of, chosen in settings.keys.items()}
        self._of_keys: dict[tuple[str, str], list[ToolsetMatcher] | None] = {}

    def __call__(self, entry: CatalogEntry, session: Session) -> bool:
        """Whether to keep ``entry``."""
        if entry.own:
            return True
        of_endpoint = self._endpoints.get(session.endpoint)
        if of_endpoint is not None and not any(entry in toolset for toolset in of_endpoint):
            return False
        of_key = self._of_key(session) if self._keys else None
        return of_key is None or any(entry in toolset for toolset in of_key)

    def why(self, entry: CatalogEntry, session: Session) -> str:
        """Whose toolsets ``entry`` is not in."""
        of_endpoint = self._endpoints.get(session.endpoint)
        if of_endpoint is not None and not any(entry in toolset for toolset in of_endpoint):
            return f"it is in no toolset that the endpoint {session.endpoint} has chosen"
        return "it is in no toolset that the key has chosen"

    def _of_key(self, session: Session) -> list[ToolsetMatcher] | None:
        """The toolsets of a session's key; None where nobody has chosen any for it."""
        who = session.access_key, session.principal
        if who not in self._of_keys:
            if len(self._of_keys) >= MOST_KEYS:
                self._of_keys.clear()
            self._of_keys[who] = next((self._keys[of] for of in self._named(who)), None)
        return self._of_keys[who]

    def _named(self, who: tuple[str, str]) -> Iterator[str]:
        """The members of ``keys`` that mean a key, the one that names it most closely first."""
        names = [name for name in who if name]
        yield from (name for name in names if name in self._keys)
        yield from (of for of in self._keys if any(fnmatch.fnmatchcase(name, of) for name in names))
