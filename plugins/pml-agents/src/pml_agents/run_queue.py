"""Whose turn it is: one run at a time of each agent, over all gateways that share the store.

Each agent has one document: who runs, and who waits, in the order they came. Whoever is in it says so again every few
seconds; whom this gateway sees silent for a whole lease is taken for gone, and loses its turn, although it may only
have stood still. Nobody is told when another gateway's run ends, so those who wait look now and then; within one
gateway they are told.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Container, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from pml_kit.cleanup import finish_despite_cancel
from pml_kit.shared.change import Write, change, plain
from pml_kit.shared.lease import Leases

from .failures import AgentError

if TYPE_CHECKING:
    from pml_hookspecs import Document, Services

    from .settings import Agent

COLLECTION = "agents.turns"
PARTS = ("runs", "waits")
"""Of a document."""
LEASE_S, BEAT_S = 20.0, 5.0
"""A run whose lease was not renewed for the first time has lost it; the second is how often leases are renewed [s]."""
KEPT_S = 7200.0
"""After which a document that nobody changed is forgotten: far more than clocks of different machines differ by [s]."""
POLL_S = 0.25
"""How often those who wait look whether another gateway's run has ended [s]."""


class QueueFullError(AgentError):
    """There is no room to wait."""

    def __init__(self, name: str, waiting: int) -> None:
        """``waiting`` are those that wait already."""
        message = f"{waiting} requests wait for {name!r} already, and no more may (max_queue); try again later"
        super().__init__("agent.queue_full", message, retryable=True)


class TurnLostError(AgentError):
    """Other gateways took this one for gone, and the turn is somebody else's by now."""

    def __init__(self) -> None:
        message = "this gateway stood still for so long that others took it for gone; its run was ended"
        super().__init__("agent.turn_lost", message, retryable=True)


@dataclass(eq=False, slots=True, kw_only=True)
class Ticket:
    """A run that waits for an agent, or has it."""

    token: str
    name: str
    id: str
    """The execution."""
    parallel: bool
    most: int
    """Runs at a time."""
    granted: bool = False
    alone: bool = False
    """Counted by this gateway only, because the store was out of order when it came."""
    ahead: int = 0
    """How many wait before it."""
    beat: int = 0
    """Grows for as long as it is needed."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    scope: asyncio.Timeout = field(default_factory=lambda: asyncio.timeout(None))
    """Ends when the turn is lost."""


class RunQueue:
    """The queue of runs: one run of each agent at a time, over all gateways that share the store."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._tickets: dict[str, Ticket] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._alone: dict[str, dict[str, Any]] = {}
        """The queues of this gateway alone, while the store cannot be used."""
        self._beating = False
        self._leases = Leases()
        self._gateway = f"{socket.gethostname()}:{os.getpid()}"

    @asynccontextmanager
    async def turn(
        self, name: str, agent: Agent, *, id: str, parallel: bool, waits: Callable[[int], None]
    ) -> AsyncIterator[None]:
        """Have a turn.

        Args:
            name: The agent's.
            agent: Says how many may run and wait.
            id: The execution.
            parallel: Not to wait for others, but for there being too many at a time.
            waits: Called with the number of those before it, whenever that changes.

        Raises:
            QueueFullError: There are enough that wait.
            TurnLostError: This gateway stood still, and others took it for gone.
        """
        token = secrets.token_hex(8)
        ticket = Ticket(token=token, name=name, id=id, parallel=parallel, most=agent.max_parallel)
        self._tickets[token] = ticket
        self._begin_to_beat()
        try:
            async with ticket.scope:
                enter = partial(_enter, ticket=ticket, gateway=self._gateway, max_queue=agent.max_queue)
                await self._change(ticket, enter, first=True)
                await self._wait(ticket, waits)
                yield
        except TimeoutError:
            if not ticket.scope.expired():
                raise
            raise TurnLostError from None
        finally:
            del self._tickets[token]
            await finish_despite_cancel(self._leave(ticket), name="end of a turn")

    async def _wait(self, ticket: Ticket, waits: Callable[[int], None]) -> None:
        told, failing = -1, False
        while not ticket.granted:
            if told != ticket.ahead:
                told = ticket.ahead
                waits(told)
            ticket.changed.clear()
            try:
                async with asyncio.timeout(POLL_S * random.uniform(0.8, 1.2)):  # noqa: S311 - no secret
                    await ticket.changed.wait()
            except TimeoutError:
                failing = not await self._sees(ticket, warn=not failing)

    async def _sees(self, ticket: Ticket, *, warn: bool) -> bool:
        """Look whose turn it is; False where the store does not say. Its place there is kept, so look again later."""
        try:
            await self._change(ticket, _look)
        except Exception as exc:
            if warn:
                self._services.log.warning("whose turn it is cannot be seen", agent=ticket.name, problem=str(exc))
            return False
        return True

    async def _leave(self, ticket: Ticket) -> None:
        try:
            await self._change(ticket, lambda value: _remove(value, ticket))
        except Exception as exc:  # it is gone when its time is over
            self._services.log.warning("the next turn comes late", agent=ticket.name, problem=str(exc))

    # Writing

    async def _change(self, ticket: Ticket, edit: Callable[[dict[str, Any]], None], *, first: bool = False) -> None:
        """Change the agent's document, and see whose turn it is then.

        Args:
            ticket: Whose change it is.
            edit: Changes the document's value in place.
            first: It is not in the store yet, and without it counts in this gateway only. Later it must not leave the
                store, for who comes before it stands there.

        Raises:
            AgentError: Raised by ``edit``.
            Exception: The store is out of order, and this is not its first change.
        """
        name = ticket.name
        async with self._locks.setdefault(name, asyncio.Lock()):
            if ticket.alone:
                value = self._alone.setdefault(name, {})
                _apply(value, edit, self._tickets)
            else:
                try:
                    value = await self._write(name, edit)
                except AgentError:
                    raise
                except Exception as exc:
                    if not first:
                        raise
                    self._services.log.warning("turns are counted by this gateway alone", problem=str(exc))
                    ticket.alone = True
                    value = self._alone.setdefault(name, {})
                    _apply(value, edit, self._tickets)
        self._tell(name, value, alone=ticket.alone)

    async def _write(self, name: str, edit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        def edited(found: Document | None) -> tuple[dict[str, Any], Write | None]:
            value = plain(found)
            beats = {entry["token"]: entry.get("beat") for part in PARTS for entry in value.get(part, ())}
            _apply(value, edit, self._leases.living(name, beats, self._tickets, LEASE_S))
            return value, Write(value, keep_s=KEPT_S)

        return await change(self._services.store.documents, COLLECTION, name, edited)

    def _tell(self, name: str, value: Mapping[str, Any], *, alone: bool) -> None:
        """Tell those of this gateway what became of them."""
        runs = {entry["token"] for entry in value.get("runs", ())}
        waiting = [entry["token"] for entry in value.get("waits", ())]
        for ticket in self._tickets.values():
            if ticket.name != name or ticket.alone != alone:
                continue
            ahead = waiting.index(ticket.token) if ticket.token in waiting else ticket.ahead
            if ticket.token in runs and not ticket.granted:
                ticket.granted = True
                ticket.changed.set()
            elif ahead != ticket.ahead:
                ticket.ahead = ahead
                ticket.changed.set()

    # Signs of life

    def _begin_to_beat(self) -> None:
        if not self._beating:
            self._beating = True
            self._services.spawn(self._beat, name="turns")

    async def _beat(self) -> None:
        try:
            while self._tickets:
                await asyncio.sleep(BEAT_S)
                for name in {ticket.name for ticket in self._tickets.values() if not ticket.alone}:
                    await self._renew(name)
        finally:
            self._beating = False

    async def _renew(self, name: str) -> None:
        mine = [ticket for ticket in self._tickets.values() if ticket.name == name and not ticket.alone]
        for ticket in mine:
            ticket.beat += 1
        try:
            async with self._locks.setdefault(name, asyncio.Lock()):
                value = await self._write(name, lambda value: _renew(value, mine, self._gateway))
        except Exception as exc:
            self._services.log.warning("other gateways may take this one for gone", problem=str(exc))
        else:
            self._tell(name, value, alone=False)
            self._end_lost(mine, value)

    def _end_lost(self, mine: list[Ticket], value: Mapping[str, Any]) -> None:
        runs = {entry["token"] for entry in value["runs"]}
        for ticket in mine:
            gone = ticket.granted and ticket.token not in runs
            if gone and ticket.token in self._tickets and not ticket.scope.expired():
                self._services.log.warning("a turn was lost: others took this gateway for gone", agent=ticket.name)
                ticket.scope.reschedule(asyncio.get_running_loop().time())


async def all_turns(services: Services) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Who runs and who waits, by agent; without those that nobody renewed for long, by the clock of this machine."""
    page, now = await services.store.documents.find(COLLECTION, limit=1000), datetime.now(UTC)
    fresh = [one for one in page.items if (now - one.changed_at).total_seconds() < LEASE_S]
    return {one.key: {part: plain(one).get(part, []) for part in PARTS} for one in fresh}


def _apply(value: dict[str, Any], edit: Callable[[dict[str, Any]], None], living: Container[str]) -> None:
    """Change a document's value in place, and give turns to those whose they are."""
    _keep(value, living)
    edit(value)
    _promote(value)


def _keep(value: dict[str, Any], living: Container[str]) -> None:
    for part in PARTS:
        value[part] = [entry for entry in value.get(part, ()) if entry["token"] in living]


def _promote(value: dict[str, Any]) -> None:
    """Those that asked for parallel runs pass those that wait for the one before them, and nobody else."""
    runs, waits = value["runs"], []
    for entry in value["waits"]:
        in_turn = not entry["parallel"] and any(not other["parallel"] for other in runs)
        if in_turn or len(runs) >= entry["most"]:
            waits.append(entry)
        else:
            runs.append(entry)
    value["waits"] = waits


def _enter(value: dict[str, Any], ticket: Ticket, gateway: str, max_queue: int) -> None:
    entry = _entry(ticket, gateway)
    value["waits"].append(entry)
    waiting = len(value["waits"])
    _promote(value)
    if entry in value["waits"] and waiting > max_queue:
        value["waits"].remove(entry)
        raise QueueFullError(ticket.name, len(value["waits"]))


def _entry(ticket: Ticket, gateway: str) -> dict[str, Any]:
    return {
        "token": ticket.token,
        "execution": ticket.id,
        "parallel": ticket.parallel,
        "most": ticket.most,
        "gateway": gateway,
        "since_s": round(time.time(), 3),
        "beat": ticket.beat,
    }


def _look(value: dict[str, Any]) -> None:
    """Change nothing; whoever looks also sees who is gone."""


def _remove(value: dict[str, Any], ticket: Ticket) -> None:
    for part in PARTS:
        value[part] = [entry for entry in value[part] if entry["token"] != ticket.token]


def _renew(value: dict[str, Any], mine: list[Ticket], gateway: str) -> None:
    known = {entry["token"]: entry for part in PARTS for entry in value[part]}
    for ticket in mine:
        if ticket.token in known:
            known[ticket.token]["beat"] = ticket.beat
        elif not ticket.granted:  # taken for gone, because this gateway stood still: at the end once more
            value["waits"].append(_entry(ticket, gateway))
