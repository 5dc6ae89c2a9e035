"""Tools that a plan or its code names: whether they are there, and whether their servers are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .facts import MOST_LOOKED_FOR, PlanFacts, state_of
from .findings import Finding, error, warning

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, ServerStatus
    from pml_kit.offers.plan_graphs import PlanNode

    from .similar_names import SimilarNames


class Targets:
    """Checks the tools that one plan names."""

    def __init__(self, facts: PlanFacts, near: SimilarNames, findings: list[Finding]) -> None:
        """What is wrong with servers is added to ``findings``."""
        self._facts, self._near, self._findings = facts, near, findings
        self._unknown = 0

    def server(self, node: PlanNode, entry: CatalogEntry, at: str, level: Callable[..., Finding] = error) -> None:
        """Note when the server of a tool does not run."""
        state, reason = state_of(entry.server, self._facts)
        if state in ("up", "idle", "starting") or entry.own:  # its tool is known, and the call waits for its start
            return
        why = f": {reason}" if reason else ""
        message = f"the server {entry.server!r} is {state}{why}"
        self._findings.append(level("server.unavailable", node.path, message, at, server=entry.server, state=state))

    def missing(self, node: PlanNode, name: str, at: str, where: str = "") -> Finding:
        """What is to be said of a tool that is not known."""
        server = name.partition(":")[0] if ":" in name else name.partition("__")[0]
        status = self._facts.servers.get(server)
        if status is not None and not _says_all(status):
            why = f": {status.reason}" if status.reason else ""
            message = f"the tool {name!r} is not known, and the server {server!r} is {status.state}{why}{where}"
            level = error if status.state in ("down", "disabled") else warning
            return level("server.unavailable", node.path, message, at, server=server, state=status.state)
        self._unknown += 1
        near = self._near.names(name, self._facts.session) if self._unknown <= MOST_LOOKED_FOR else []
        hint = f"; did you mean {' or '.join(near)}?" if near else "; find tools with search_tools"
        gone = ":" in name and status is None and not self._near.has(server, self._facts.session)
        why = f"; there is no server {server!r} that has tools" if gone else ""
        message = f"no tool is called {name!r}{where}{why}{hint}"
        named = status is not None or ":" in name
        # Without a server's name, it may be of any that has not said what it has.
        sure = named or all(_says_all(one) for one in self._facts.servers.values())
        return (error if sure else warning)("tool.unknown", node.path, message, at, tool=name, nearest=near)


def _says_all(server: ServerStatus) -> bool:
    """Whether the catalog has all the tools of it."""
    return server.state == "up" or (server.state == "idle" and server.tools > 0)
