"""Which process of which machine a gateway is, that it lives, as others see it, and which of the others are gone."""

from __future__ import annotations

import math
import os
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from pml_kit.processes import is_surely_gone, machine, started
from pml_kit.shared.change import Write, change

if TYPE_CHECKING:
    from pml_hookspecs import Document, Store
    from pml_kit.shared.lease import Leases

GATEWAYS = "core.gateways"
"""Collection of documents: one for each gateway."""
BEAT_S, DEAD_S = 5.0, 30.0
"""How often a gateway says that it lives, and after which silence it counts as gone [s]."""
KEPT_S = 86_400.0
"""How long it is remembered that a gateway was taken for gone [s]."""
UP, GONE = {"state": "up"}, {"state": "gone"}
"""Marks of a gateway's document. What one has under way that was taken for gone is for others to see to."""


@dataclass(frozen=True, slots=True)
class GatewayProcess:
    """One run of one process."""

    id: str
    machine: str
    """This start of this machine, or of the container that has process numbers of its own; ``""`` when not known."""
    pid: int
    started: str
    """Tells it from later processes of the same number; ``""`` when not known."""

    @classmethod
    def current(cls) -> Self:
        """This one."""
        pid = os.getpid()
        return cls(uuid.uuid4().hex, machine(), pid, started(pid))

    @classmethod
    def from_plain(cls, id: str, plain: Mapping[str, Any]) -> Self:
        """What :meth:`plain` wrote."""
        return cls(id, str(plain.get("machine", "")), int(plain.get("pid", 0)), str(plain.get("started", "")))

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {"machine": self.machine, "pid": self.pid, "started": self.started}

    def is_surely_gone(self) -> bool:
        """Whether it ran on this machine and does not any more; False when that cannot be told."""
        return is_surely_gone(self.pid, self.started, self.machine)


class Presence:
    """This gateway among those that share a store. Each judges by its own clock which of the others are gone."""

    def __init__(self, store: Store, on_lost: Callable[[], None]) -> None:
        """``on_lost`` is called when others have taken this gateway for gone: by then it is another one."""
        self._store, self._on_lost = store, on_lost
        self.me = GatewayProcess.current()
        self.began_at = datetime.now(UTC)
        self._leases: Leases | None = None
        self._beats = 0
        self._beaten_s = -math.inf
        """When it last said that it lives, by the clock of this process."""
        self._lost_at: datetime | None = None

    async def beat(self) -> None:
        """Say that this gateway lives, unless that was done just now.

        Raises:
            Exception: The store's.
        """
        now_s = time.monotonic()
        if now_s - self._beaten_s > BEAT_S / 2:
            self._beats += 1
            if not await change(self._store.documents, GATEWAYS, self.me.id, self._up):
                self.me, self.began_at = GatewayProcess.current(), datetime.now(UTC)
                self._lost_at = self.began_at
                self._on_lost()
                await change(self._store.documents, GATEWAYS, self.me.id, self._up)
            self._beaten_s = now_s

    def _up(self, found: Document | None) -> tuple[bool, Write | None]:
        if found is not None and found.marks == GONE:
            return False, None
        value = {**self.me.plain(), "began_at": self.began_at.isoformat(), "beat": self._beats}
        return True, Write(value, UP, KEPT_S)

    async def leave(self) -> None:
        """Say that this gateway ends."""
        if self._beats:
            await self._store.documents.delete(GATEWAYS, self.me.id)

    async def holds(self, began_at: datetime) -> bool:
        """Whether nobody else can have recorded the end of what this gateway began then.

        Only one that stood still for nearly as long as others wait asks the store.
        """
        if self._beats and time.monotonic() - self._beaten_s > DEAD_S - BEAT_S:
            with suppress(Exception):  # where the store is away, nobody else has written either
                await self.beat()
        return self._lost_at is None or began_at > self._lost_at

    async def living(self) -> Mapping[str, datetime]:
        """The gateways that are not gone, by id, and when each began, by its own clock.

        One that is gone is marked so before anybody sees to what it left.
        """
        found: list[Document] = []
        cursor = None
        while True:
            page = await self._store.documents.find(GATEWAYS, marks=UP, limit=1000, cursor=cursor)
            found += page.items
            if (cursor := page.cursor) is None:
                break
        from pml_kit.shared.lease import Leases

        self._leases = self._leases or Leases()
        beats = {document.key: document.version for document in found}
        silent = beats.keys() - self._leases.living(GATEWAYS, beats, (self.me.id,), DEAD_S)
        living = {self.me.id: self.began_at}
        for one in found:
            gone = one.key in silent or GatewayProcess.from_plain(one.key, one.value).is_surely_gone()
            if one.key != self.me.id and not (gone and await self._bury(one)):
                living[one.key] = datetime.fromisoformat(str(one.value["began_at"]))
        return living

    async def was_killed(self, id: str) -> bool:
        """Whether a gateway that is gone did not end in good order."""
        return bool(id) and await self._store.documents.get(GATEWAYS, id) is not None

    async def _bury(self, seen: Document) -> bool:
        """Mark a gateway as gone; False when it has given a sign of life meanwhile."""

        def edit(found: Document | None) -> tuple[bool, Write | None]:
            if found is None or found.marks == GONE:
                return True, None
            return (True, Write(seen.value, GONE, KEPT_S)) if found.version == seen.version else (False, None)

        return await change(self._store.documents, GATEWAYS, seen.key, edit)
