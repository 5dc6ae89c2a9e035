"""All configured servers, for the executor that asks them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from pml_hookspecs import RawObject, Run, ServerRequest, Session, ToolCall, TransportError

from .connection.calls import progress_of
from .server import Server

Learn = Callable[[Server, RawObject, str, Session], None]
"""Told a server's result, the name of what gave it, and whose it is."""


class Links(Protocol):
    """Gives results on, their links as clients can follow them."""

    def may_have(self, server: Server, result: RawObject) -> bool:
        """Whether a result of ``server`` may have links that are to be given on as others."""
        ...

    async def followable(self, server: Server, result: RawObject, session: Session) -> RawObject:
        """The result as ``session`` is given it."""
        ...


def _nothing(_server: Server, _result: RawObject, _name: str, _session: Session) -> None:
    """Nobody learns from results."""


class Downstream:
    """All configured servers."""

    def __init__(
        self,
        servers: Mapping[str, Server],
        learn: Learn = _nothing,
        *,
        started: bool = True,
        links: Links | None = None,
    ) -> None:
        """``learn`` is shown every result of a tool; not ``started`` are servers of a command that only looks.

        ``links`` are given on as clients can follow them; as they came without it.
        """
        self.servers, self._learn, self._started, self._links = servers, learn, started, links

    async def call_tool(self, server: str, name: str, task: ToolCall, run: Run) -> RawObject:
        """See :meth:`Server.call_tool`."""
        known = self.servers.get(server)
        if known is None or not self._started:
            raise self._why_not(server)
        result = await known.call_tool(name, task, run)
        self._learn(known, result, task.tool, run.session)
        if self._links is None or not self._links.may_have(known, result):
            return result
        return await self._links.followable(known, result, run.session)

    async def request(self, task: ServerRequest, run: Run) -> RawObject:
        """Send any other request; params and result pass as they are.

        Raises:
            TimeoutError, TransportError, RpcError: As :meth:`Server.call_tool`.
        """
        known = self.servers.get(task.server)
        if known is None or not self._started:
            raise self._why_not(task.server)
        params = RawObject.of(task.params)
        if task.method == "resources/subscribe":
            return await known.subscribe(task.target, params)
        result = await known.ask(task.method, params, progress_of(run) if run.wants_progress else None)
        if task.kind == "method":
            self._learn(known, result, task.name, run.session)
        if self._links is None or not self._links.may_have(known, result):
            return result
        return await self._links.followable(known, result, run.session)

    def _why_not(self, server: str) -> TransportError:
        known = server in self.servers
        why = "this command starts no servers; give it --connect" if known else "it is not configured"
        return TransportError(why, retryable=False)
