"""Whether a program that clients share would list other tools for clients that can be asked something."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pml_core.client import Client
from pml_hookspecs import CatalogEntry, RpcError, TransportError, encode

from .instance import Instance
from .tools import Tools, read_once
from .wiring import Wiring

EVERYTHING: Mapping[str, Any] = {
    "roots": {"listChanged": True},
    "sampling": {"tools": {}, "context": {}},
    "elicitation": {"form": {}, "url": {}},
}
"""All that a client can declare (MCP 2025-11-25)."""
MORE, SAME = "more", "same"


class Difference:
    """Of one server. Found out by starting it once more, for a client that can do everything, and kept."""

    on_found: Callable[[str, str], None] | None = None
    """Is told of which program, as it introduced itself, what it lists for such clients: :data:`MORE` or the same."""

    def __init__(self, wiring: Wiring, main: Instance, tools: Tools, differs: Callable[[], None]) -> None:
        """``differs`` is called once, when it does; ``main`` and ``tools`` are of the connection that serves all."""
        self._wiring, self._main, self._tools, self._differs = wiring, main, tools, differs
        self._looked = False
        self._task: asyncio.Task[None] | None = None
        self.remembered: tuple[str, str] | None = None
        """What :attr:`on_found` was told last, in this run or before."""

    def look(self, client: Client) -> None:
        """Find it out, if that was not done, for a client that it may matter to. Nobody waits for it."""
        settings, main = self._wiring.settings, self._main
        apart = settings.sharing != "auto" or settings.url or self._wiring.upstream.one_client
        if self._looked or apart or client.modern or not client.capabilities or main.modern or not main.connected:
            return
        self._looked = True
        program = encode(main.offer.words.about).decode()
        if self.remembered is not None and self.remembered[0] == program:
            self._take()
            return
        self._task = asyncio.get_running_loop().create_task(
            self._find(program), name=f"difference:{self._wiring.name}", context=contextvars.Context()
        )

    async def _find(self, program: str) -> None:
        try:
            found = await self._listed(EVERYTHING)
            # What it lists for all may have changed with what clients did, so that is read anew as well.
            differs = found != _of(self._tools.listed) and found != await self._listed({})
        except (RpcError, TransportError, TimeoutError, ValueError) as exc:
            self._wiring.log.debug("it is not known whether it lists more for clients that can more", reason=str(exc))
            return
        self.remembered = program, MORE if differs else SAME
        if self.on_found is not None:
            self.on_found(*self.remembered)
        self._take()

    async def _listed(self, capabilities: Mapping[str, Any]) -> frozenset[str]:
        async with self._wiring.starts.turn(asyncio.Event()):
            return _of((await read_once(self._wiring, "legacy", capabilities))[0])

    def _take(self) -> None:
        if self.remembered is not None and self.remembered[1] == MORE:
            self._wiring.log.info("it lists something else for clients that can be asked: each has one of its own")
            self._differs()

    def close(self) -> None:
        """Nobody looks any more."""
        self._looked = True
        if self._task is not None:
            self._task.cancel()


def _of(tools: Iterable[CatalogEntry]) -> frozenset[str]:
    """By name: some programs describe a tool in other words at each start."""
    return frozenset(tool.name for tool in tools)
