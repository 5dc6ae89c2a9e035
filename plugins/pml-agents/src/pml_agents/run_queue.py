"""Whose turn it is: one run at a time of each agent, over all gateways that share the store.

Each agent has one document: who runs, and who waits, in the order they came. Whoever is in it says so again every few
seconds; whom this gateway sees silent for a whole lease is taken for gone. Nobody is told when another gateway's run
ends, so those who wait look now and then; within one gateway they are told.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Container, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from pml_hookspecs import encode
from pml_hookspecs.leases import Leases
from pml_kit.cleanup import finish_despite_cancel

from .failures import AgentError

if TYPE_CHECKING:
    from pml_hookspecs import Services

    from .settings import Agent

T = TypeVar("T")
COLLECTION = "agents.turns"
PARTS = ("runs", "waits")
"""Of a document. ``until_s`` of an entry is its sign of life: others see whether it changes, not what it says."""
LEASE_S, BEAT_S = 20.0, 5.0
"""A run whose lease was not renewed for the first time has lost it; the second is how often leases are renewed [s]."""
KEPT_S = 7200.0
"""After which a document that nobody changed is forgotten: far more than clocks of different machines differ by [s]."""
POLL_S = 0.25
"""How often those who wait look whether another gateway's run has ended [s]."""
ATTEMPTS = 60
"""How often others may be faster before the store is taken for out of order."""
LONGEST_PAUSE_S = 0.05


class QueueFullError(AgentError):
    """There is no room to wait."""

    def __init__(self, name: str, waiting: int) -> None:
        """``waiting`` are those that wait already."""
        message = f"{waiting} requests wait for {name!r} already, and no more may (max_queue); try again later"
        super().__init__("agent.queue_full", message, retryable=True)


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
    changed: asyncio.Event = field(default_factory=asyncio.Event)


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
        """
        token = secrets.token_hex(8)
        ticket = Ticket(token=token, name=name, id=id, parallel=parallel, most=agent.max_parallel)
        self._tickets[token] = ticket
        self._begin_to_beat()
        try:
            await self._change(ticket, lambda value: _enter(value, ticket, self._gateway, agent.max_queue), first=True)
            await self._wait(ticket, waits)
            yield
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

    async def _change(self, ticket: Ticket, change: Callable[[dict[str, Any]], None], *, first: bool = False) -> None:
        """Change the agent's document, and see whose turn it is then.

        Args:
            ticket: Whose change it is.
            change: Changes the document's value in place.
            first: It is not in the store yet, and without it counts in this gateway only. Later it must not leave the
                store, for who comes before it stands there.

        Raises:
            AgentError: Raised by ``change``.
            Exception: The store is out of order, and this is not its first change.
        """
        name = ticket.name
        async with self._locks.setdefault(name, asyncio.Lock()):
            if ticket.alone:
                value = self._alone.setdefault(name, {})
                _apply(value, change, self._tickets)
            else:
                try:
                    value = await self._write(name, change)
                except AgentError:
                    raise
                except Exception as exc:
                    if not first:
                        raise
                    self._services.log.warning("turns are counted by this gateway alone", problem=str(exc))
                    ticket.alone = True
                    value = self._alone.setdefault(name, {})
                    _apply(value, change, self._tickets)
        self._tell(name, value, alone=ticket.alone)

    async def _write(self, name: str, change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        documents = self._services.store.documents
        for attempt in range(ATTEMPTS):
            found = await documents.get(COLLECTION, name)
            before = b"{}" if found is None else encode(found.value)
            value: dict[str, Any] = json.loads(before)
            _apply(value, change, self._living(name, value))
            if encode(value) == before:
                return value
            expires_at = datetime.now(UTC) + timedelta(seconds=KEPT_S)
            version = 0 if found is None else found.version
            if await documents.put(COLLECTION, name, value, expires_at=expires_at, if_version=version) is not None:
                return value
            await asyncio.sleep(random.uniform(0, min(LONGEST_PAUSE_S, 0.001 * 2**attempt)))  # noqa: S311 - no secret
        raise RuntimeError(f"{COLLECTION} {name}: {ATTEMPTS} times another gateway was faster")

    def _living(self, name: str, value: Mapping[str, Any]) -> set[str]:
        marks = {entry["token"]: entry["until_s"] for part in PARTS for entry in value.get(part, ())}
        return self._leases.living(name, marks, self._tickets, LEASE_S)

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
        if not mine:
            return
        try:
            async with self._locks.setdefault(name, asyncio.Lock()):
                value = await self._write(name, lambda value: _renew(value, mine, self._gateway))
        except Exception as exc:
            self._services.log.warning("other gateways may take this one for gone", problem=str(exc))
        else:
            self._tell(name, value, alone=False)


async def all_turns(services: Services) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Who runs and who waits, by agent; without those that said so last long ago, by the clock of this machine."""
    page = await services.store.documents.find(COLLECTION, limit=1000)
    found = {}
    for document in page.items:
        value: dict[str, Any] = json.loads(encode(document.value))
        now_s = time.time()
        _keep(value, {entry["token"] for part in PARTS for entry in value.get(part, ()) if entry["until_s"] > now_s})
        found[document.key] = {"runs": value["runs"], "waits": value["waits"]}
    return found


def _apply(value: dict[str, Any], change: Callable[[dict[str, Any]], None], living: Container[str]) -> None:
    """Change a document's value in place, and give turns to those whose they are."""
    _keep(value, living)
    change(value)
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
        "until_s": round(time.time() + LEASE_S, 3),
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
            known[ticket.token]["until_s"] = round(time.time() + LEASE_S, 3)
        else:  # taken for gone, because this gateway stood still
            value["runs" if ticket.granted else "waits"].append(_entry(ticket, gateway))
