"""All configured servers, for the executor that asks them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from pml_hookspecs import RawObject, Run, ServerRequest, Session, ToolCall, TransportError

from .calls import progress_of
from .server import Server

Learn = Callable[[Server, RawObject, str, Session], None]
"""Told a server's result, the name of what gave it, and whose it is."""

Followable = Callable[[Server, RawObject, Session], Awaitable[RawObject]]
"""Gives a server's result as a session is given it."""


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
        followable: Followable | None = None,
    ) -> None:
        """``learn`` is shown every result of a tool; not ``started`` are servers of a command that only looks.

        ``followable`` gives the links of a result as clients can follow them.
        """
        self.servers, self._learn, self._started, self._followable = servers, learn, started, followable

    async def call_tool(self, server: str, name: str, task: ToolCall, run: Run) -> RawObject:
        """See :meth:`Server.call_tool`."""
        known = self._running(server)
        result = await known.call_tool(name, task, run)
        self._learn(known, result, task.tool, run.session)
        return result if self._followable is None else await self._followable(known, result, run.session)

    async def request(self, task: ServerRequest, run: Run) -> RawObject:
        """Send any other request; params and result pass as they are.

        Raises:
            TimeoutError, TransportError, RpcError: As :meth:`Server.call_tool`.
        """
        known = self._running(task.server)
        params = RawObject.of(task.params)
        if task.method == "resources/subscribe":
            return await known.subscribe(task.target, params)
        result = await known.ask(task.method, params, progress_of(run) if run.wants_progress else None)
        if task.kind == "method":
            self._learn(known, result, task.name, run.session)
        return result if self._followable is None else await self._followable(known, result, run.session)

    def _running(self, server: str) -> Server:
        known = self.servers.get(server)
        if known is None:
            raise TransportError("it is not configured", retryable=False)
        if not self._started:
            raise TransportError("this command starts no servers; give it --connect", retryable=False)
        return known
