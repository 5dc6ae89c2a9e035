"""Slots: how many tasks at a time. In this process, or in the store."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .atomic_changes import Changes

if TYPE_CHECKING:
    from pml_hookspecs import Services

    from .outage import Outage
    from .rules import Limit

COLLECTION = "limits.slots"
LEASE_S = 30.0
"""A slot of a gateway that is gone is free again after this time [s]."""
KEPT_S = 7200.0
"""After which a document that nobody changed is forgotten: far more than clocks of different machines differ by [s]."""
RENEW_S = 10.0
"""How often a gateway says that it still needs its slots [s]."""
LOOKED_AT = 1000
"""Documents that are looked at when the gateway starts."""
POLL_S = 0.1
"""How often whoever queues looks whether another gateway has given one back [s]."""


class Slots:
    """The slots of this process, given out first come, first served."""

    def __init__(self) -> None:
        self.taken: dict[str, int] = {}
        self.limits: dict[str, Limit] = {}
        """Slots that are taken now."""
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}

    async def take(self, limit: Limit, scope: asyncio.Timeout | None = None) -> str | None:
        """What :meth:`give_back` takes; None when there was none free in time."""
        key, rule = limit.key, limit.rule
        self.limits[key] = limit
        if self.taken.get(key, 0) < rule.concurrency and not self._queues.get(key):
            self.taken[key] = self.taken.get(key, 0) + 1
            return key
        return key if rule.queue_s and await self._queue(limit) else None

    async def _queue(self, limit: Limit) -> bool:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(limit.key, deque()).append(turn)
        try:
            async with asyncio.timeout(limit.rule.queue_s):
                await turn
        except TimeoutError:
            return self._left(limit, turn)
        except asyncio.CancelledError:
            if self._left(limit, turn):
                self._free(limit)
            raise
        return True

    def _left(self, limit: Limit, turn: asyncio.Future[None]) -> bool:
        """Leave the queue; whether it was given a slot at the last moment."""
        if not turn.cancelled():
            return True
        queue = self._queues.get(limit.key)
        if queue is not None and turn in queue:
            queue.remove(turn)
        self._serve(limit)
        return False

    async def give_back(self, limit: Limit, token: str) -> None:
        """Free a slot."""
        self._free(limit)

    def _free(self, limit: Limit) -> None:
        self.taken[limit.key] -= 1
        self._serve(limit)

    def _serve(self, limit: Limit) -> None:
        """Give free slots to those who queue."""
        key, queue = limit.key, self._queues.get(limit.key)
        while queue and self.taken.get(key, 0) < limit.rule.concurrency:
            turn = queue.popleft()
            if not turn.done():
                turn.set_result(None)
                self.taken[key] = self.taken.get(key, 0) + 1
        if not queue:
            self._queues.pop(key, None)
            if not self.taken.get(key):
                self.taken.pop(key, None)
                self.limits.pop(key, None)


class SharedSlots:
    """The slots of all gateways that use the store, as leases: a holder that does not renew its slot loses it."""

    def __init__(self, services: Services, alone: Slots, outage: Outage) -> None:
        """``alone`` gives them out while the store is out of order."""
        self._changes, self._alone, self._outage = Changes(services, COLLECTION), alone, outage
        self._held: dict[str, tuple[str, asyncio.Timeout | None]] = {}
        """By token: of which limit, and what ends the task that has it."""
        from pml_kit.shared.lease import Leases

        self._leases, self._beat = Leases(), 0
        self._services = services

    async def take(self, limit: Limit, scope: asyncio.Timeout | None = None) -> str | None:
        """What :meth:`give_back` takes; None when there was none free in time.

        Args:
            limit: Of which one.
            scope: Ends when the slot is lost, because this gateway stood still and others took it for gone; None for
                nothing.
        """
        until_s = time.monotonic() + limit.rule.queue_s
        token = secrets.token_hex(8)
        try:
            while not await self._try(limit, token):
                left_s = until_s - time.monotonic()
                if left_s <= 0:
                    return None
                await asyncio.sleep(min(left_s, POLL_S * random.uniform(0.5, 1.5)))  # noqa: S311 - no secret
        except asyncio.CancelledError:
            # It may have been written by then; nobody renews it, and it is given back as soon as that is possible.
            self._held[token] = limit.key, scope
            await asyncio.shield(self.give_back(limit, token))
            raise
        except Exception as exc:
            self._outage.noted("concurrency is limited by this gateway alone", exc)
            return await self._alone.take(limit, scope)
        self._held[token] = limit.key, scope
        return token

    def _holders(self, key: str, value: Mapping[str, Any]) -> dict[str, int]:
        """Those that are not gone."""
        found = value.get("holders", {})
        living = self._leases.living(key, found, self._held, LEASE_S)
        return {holder: beat for holder, beat in found.items() if holder in living}

    async def _try(self, limit: Limit, token: str) -> bool:
        def take(value: dict[str, Any]) -> bool:
            holders = self._holders(limit.key, value)
            if len(holders) >= limit.rule.concurrency:
                return False
            holders[token] = self._beat
            value.update(holders=holders, rule=limit.name, whose=dict(limit.whose))
            return True

        return await self._changes.change(limit.key, take, keep_s=KEPT_S)

    async def give_back(self, limit: Limit, token: str) -> None:
        """Free a slot. One that cannot be freed now is free when its time is over."""
        if self._held.pop(token, None) is None:
            await self._alone.give_back(limit, token)
            return

        def give(value: dict[str, Any]) -> None:
            value.get("holders", {}).pop(token, None)

        try:
            await self._changes.change(limit.key, give, keep_s=KEPT_S)
        except Exception as exc:
            self._outage.noted("slots are freed late", exc)

    async def renew(self) -> None:
        """Say again and again which are still needed, until cancelled."""
        await self._look()
        while True:
            await asyncio.sleep(RENEW_S)
            self._beat += 1
            for key in {key for key, _ in self._held.values()}:
                try:
                    await self._renew(key)
                except Exception as exc:
                    self._outage.noted("other gateways may take more slots than there are", exc)

    async def _renew(self, key: str) -> None:
        mine = {token for token, (its_key, _) in self._held.items() if its_key == key}

        def again(value: dict[str, Any]) -> set[str]:
            holders = self._holders(key, value)
            value["holders"] = holders | dict.fromkeys(mine & holders.keys(), self._beat)
            return mine - holders.keys()

        for token in await self._changes.change(key, again, keep_s=KEPT_S):
            _, scope = self._held.get(token, (key, None))
            if scope is not None and not scope.expired():
                scope.reschedule(asyncio.get_running_loop().time())

    async def _look(self) -> None:
        """See who holds what, so that those who are gone already are known to be when their lease is over."""
        with suppress(Exception):  # the store is away; whoever takes a slot says so
            page = await self._services.store.documents.find(COLLECTION, limit=LOOKED_AT)
            for document in page.items:
                self._holders(document.key, document.value)

    async def settle(self) -> None:
        """Wait for what is being written."""
        await self._changes.settle()
