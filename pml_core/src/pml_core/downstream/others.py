"""Connections to a server besides the one that serves all: one for each client, or for clients of the other era."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pml_core.upstream import Client
from pml_hookspecs import Link, RawObject, TransportError

from .eras import Era
from .instance import Events, Instance, Wiring

if TYPE_CHECKING:
    Notified = Callable[[Instance, str, RawObject], None]

Key = tuple[object, Era]
EVERYONE = "everyone"


class Others:
    """Started by the first call that needs one; stopped when their client leaves."""

    def __init__(self, wiring: Wiring, notified: Notified, main: Instance) -> None:
        self._wiring, self._notified, self._main = wiring, notified, main
        self._running: dict[Key, tuple[Instance, asyncio.Task[None]]] = {}
        self._one_era = wiring.settings.era != "client"
        self._refused: set[Era] = set()
        """Eras that the server is known not to speak."""

    @property
    def _per_client(self) -> bool:
        sharing = self._wiring.settings.sharing
        if self._wiring.upstream.one_client:
            return False
        return sharing == "per_client" or (sharing == "auto" and bool(self._wiring.settings.url))

    def __iter__(self) -> Iterator[Instance]:
        return iter([instance for instance, _ in self._running.values()])

    def _era_for(self, client: Client) -> Era:
        main = self._main.offer.era
        wanted: Era = "modern" if client.modern else "legacy"
        return main if self._one_era or wanted in self._refused else wanted

    def apply(self, client: Client) -> bool:
        """Whether the client needs another connection than the one that serves all."""
        return self._era_for(client) != self._main.offer.era or (self._per_client and not self._main.modern)

    async def of(self, client: Client, within_s: float) -> Instance:
        """The client's connection; the one that serves all when the server does not speak the client's era.

        Raises:
            TransportError: It cannot be had; the message says why.
        """
        await self._main.link(within_s)
        era = self._era_for(client)
        alone = self._per_client and era == "legacy"
        if era == self._main.offer.era and not alone:
            return self._main
        key: Key = (client.conversation if alone else EVERYONE, era)
        if key not in self._running:
            self._start(key, client if alone else None)
        instance = self._running[key][0]
        try:
            await instance.link(within_s)
        except TransportError:
            if instance.offer.protocol or alone:
                raise
            self._refused.add(era)  # it never began in this era
            await self.stop(EVERYONE)
            return self._main
        return instance

    def _start(self, key: Key, client: Client | None) -> None:
        most = self._wiring.settings.max_clients
        if client is not None and sum(1 for person, _ in self._running if person is not EVERYONE) >= most:
            raise TransportError(
                f"{most} clients have one of their own already; raise max_clients in [servers.{self._wiring.name}]",
                retryable=True,
            )
        events = Events(ready=_nothing, up=_silent, down=_ignored, notified=self._notified)
        era = key[1]
        idle_timeout_s = self._wiring.settings.idle_timeout_s
        instance = Instance(
            self._wiring, events, era=era, other_era=False, client=client, idle_timeout_s=idle_timeout_s
        )
        # Not in the context of the request that needs it first: what the server says later is not about that one.
        task = asyncio.get_running_loop().create_task(
            instance.run(), name=f"server:{self._wiring.name}:{era}", context=contextvars.Context()
        )
        self._running[key] = (instance, task)

    def has(self, person: object) -> bool:
        """Whether something runs that is only for this client."""
        return any(key[0] is person for key in self._running)

    async def stop(self, person: object) -> None:
        """Stop what is only for one client, or what is for everyone of the other era."""
        tasks = [self._running.pop(key)[1] for key in list(self._running) if key[0] is person]
        await _end(tasks)

    async def stop_all(self) -> None:
        """Stop everything."""
        tasks = [task for _, task in self._running.values()]
        self._running.clear()
        await _end(tasks)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _nothing(_instance: Instance, _link: Link) -> None:
    """Its tools are known."""


def _silent() -> None:
    """The status is that of the connection that serves all."""


def _ignored(_state: str, _reason: str) -> None:
    """As :func:`_silent`."""
