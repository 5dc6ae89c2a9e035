"""Tools that the gateway answers itself: its own, and those that plugins publish as servers of theirs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import AGENTS_SERVER, GATEWAY_SERVER, MetaTool, ToolCall, ToolId
from pml_kit.errors import OperatorError

from .live import make_entry

if TYPE_CHECKING:
    from pml_hookspecs import Task

    from .live import LiveCatalog

OF_AGENTS = f"{AGENTS_SERVER}:"


class OwnTools:
    """By id, for those who call them; the catalog shows them."""

    def __init__(self, catalog: LiveCatalog, servers: Collection[str]) -> None:
        """``servers`` are the names of those that are configured, also as they change."""
        self._catalog, self._servers = catalog, servers
        self._tools: dict[ToolId, MetaTool] = {}
        self._owners: dict[str, str] = {}

    @property
    def servers(self) -> Collection[str]:
        """Names of those that plugins have published, also without any tool."""
        return self._owners.keys()

    def __contains__(self, id: ToolId) -> bool:
        return id in self._tools

    def get(self, id: ToolId) -> MetaTool | None:
        """None for tools of real servers."""
        return self._tools.get(id)

    def has_turns(self, tool: str) -> bool:
        """Whether it is an agent's, of which each call waits for its turn, and says when that comes (``Run.begin``)."""
        entry = self._catalog.resolve(ToolId(tool))
        return entry is not None and entry.server == AGENTS_SERVER and entry.id in self._tools

    def agent_of(self, task: Task) -> str:
        """The configured agent whose run ``task``, a call under its canonical id, is; ``""`` for all else."""
        if type(task) is not ToolCall or not task.tool.startswith(OF_AGENTS) or task.tool not in self._tools:
            return ""
        return task.tool[len(OF_AGENTS) :]

    def offer(self, contributed: Iterable[tuple[str, MetaTool]]) -> None:
        """Take the gateway's own tools, each with the plugin that brings it.

        Raises:
            OperatorError: Two plugins claim a name.
        """
        owners: dict[str, str] = {}
        tools: dict[str, MetaTool] = {}
        for plugin, tool in contributed:
            for name in (tool.definition["name"], *tool.aliases):
                if name in owners:
                    message = f"tool {name!r} is claimed by plugins {owners[name]!r} and {plugin!r}"
                    raise OperatorError(message, f"Block one of them: [gateway] block = [{plugin!r}]")
                owners[name] = plugin
            tools[tool.definition["name"]] = tool
        self._tools.update({ToolId(f"{GATEWAY_SERVER}:{name}"): tool for name, tool in tools.items()})
        self._catalog.offer(tools.values())

    def check_free(self, servers: Iterable[str]) -> None:
        """See that no plugin has published a server of such a name.

        Raises:
            OperatorError: One has.
        """
        for name in servers:
            if name in self._owners:
                raise OperatorError(f"servers.{name}: the name belongs to the plugin {self._owners[name]!r}")

    def publish(self, plugin: str, server: str, tools: Sequence[MetaTool]) -> None:
        """Make ``tools`` all that a server has that is only a plugin.

        Raises:
            ValueError: The name is taken.
        """
        if server == GATEWAY_SERVER or server in self._servers:
            raise ValueError(f"{server!r} is the name of a configured server, or the gateway's own")
        if (owner := self._owners.setdefault(server, plugin)) != plugin:
            raise ValueError(f"{server!r} belongs to the plugin {owner!r}")
        known: dict[ToolId, Any] = {ToolId(f"{server}:{tool.definition['name']}"): tool for tool in tools}
        self._tools = {id: t for id, t in self._tools.items() if not id.startswith(f"{server}:")} | known
        self._catalog.publish(server, [make_entry(server, tool.definition) for tool in tools])
