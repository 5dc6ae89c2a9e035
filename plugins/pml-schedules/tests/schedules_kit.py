"""A clock that a test sets, and a gateway that keeps what it is told to start."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pml_core.plugins.nulls import MemoryStore
from pml_hookspecs import ExecutionId, ExecutionRecord, RunOptions, Scope, Session, Status, Task, replace
from pml_kit.plain import kind_of
from pml_schedules.scheduler import Scheduler
from pml_schedules.settings import Schedule, Settings
from pml_testing.fakes import FakeCatalog, FakeServices, entry

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
EVERYONE = Scope(principals=None)


class SetClock:
    """Stands still until it is set."""

    def __init__(self, now: datetime = NOON) -> None:
        self._now, self._elapsed_s = now, 0.0

    def now(self) -> datetime:
        return self._now

    def elapsed_s(self) -> float:
        return self._elapsed_s

    async def sleep(self, duration_s: float) -> None:
        self.go_on(duration_s)

    def go_on(self, duration_s: float) -> None:
        """Time passes."""
        self._now += timedelta(seconds=duration_s)
        self._elapsed_s += duration_s

    def put(self, now: datetime) -> None:
        """Somebody puts the clock forward or back, or the machine was suspended."""
        self._now = now


class Slow:
    """Documents that take their time: others go on meanwhile, in an order that chance makes."""

    def __init__(self, documents: Any) -> None:
        self._documents, self._chance = documents, random.Random(7)

    def __getattr__(self, name: str) -> Any:
        async def slow(*args: Any, **more: Any) -> Any:
            for _ in range(self._chance.randrange(4)):
                await asyncio.sleep(0)
            return await getattr(self._documents, name)(*args, **more)

        return slow


class Store(MemoryStore):
    """One that several gateways of a test share."""

    def __init__(self) -> None:
        super().__init__(remembered=10_000)
        self.documents: Any = Slow(self.documents)


class Gateway(FakeServices):
    """Starts nothing, but keeps a pending row as the real one does."""

    def __init__(self, store: Store, clock: SetClock, settings: Settings | None = None) -> None:
        catalog = FakeCatalog([entry("s:tool"), entry("agents:janitor"), entry("pml:execute_workflow")])
        super().__init__("schedules", settings=settings, store=store, catalog=catalog)
        self.clock, self.refusal = clock, None
        self.scheduler = Scheduler(self, settings or Settings(), clock)

    async def start(self, task: Task, session: Session, options: RunOptions = RunOptions()) -> ExecutionId:
        if self.refusal is not None:
            raise self.refusal
        id = options.id
        assert id is not None
        if await self.store.executions.get(id, EVERYONE) is None:
            await super().start(task, session, options)
            record = ExecutionRecord(
                id=id,
                kind=kind_of(task),
                target="",
                principal=session.principal,
                trigger=options.trigger,
                schedule=options.schedule,
                status="pending",
                started_at=self.clock.now(),
            )
            await self.store.executions.put(record)
        return id

    async def end(self, id: ExecutionId, status: Status = Status.OK) -> None:
        """An execution ends."""
        record = await self.store.executions.get(id, EVERYONE)
        assert record is not None
        await self.store.executions.put(replace(record, status=status, duration_ms=5))

    async def look(self, *, go_on_s: float = 0.0) -> float:
        """Time passes, and the scheduler looks."""
        self.clock.go_on(go_on_s)
        return await self.scheduler.look()

    @property
    def times(self) -> list[str]:
        """When runs were begun, for whichever due time."""
        return [f"{self.claimed_at(id):%H:%M:%S}" for id, *_ in self.started]

    @staticmethod
    def claimed_at(id: ExecutionId) -> datetime:
        return datetime.fromtimestamp(int(id[:8] + id[9:13], 16) / 1000, UTC)

    def said(self, event: str) -> list[Mapping[str, Any]]:
        """What was logged."""
        return [fields for _, what, fields in self.log.lines if what == event]


def tool(**more: Any) -> Schedule:
    """A schedule of a tool, every minute unless it says otherwise."""
    when = {} if {"cron", "every_s"} & more.keys() else {"cron": "* * * * *"}
    return Schedule(tool="s:tool", **when, **more)


def settings(**schedules: Schedule) -> Settings:
    """With these, by name."""
    return Settings(schedules=schedules)


async def claims(gateway):
    found = await gateway.scheduler.ledger.claims({})
    return {claim.key.partition("@")[2][11:16]: (claim.state, claim.status) for claim in found}


async def finish(gateway):
    """All runs under way end well."""
    for id, *_ in gateway.started:
        record = await gateway.store.executions.get(id, EVERYONE)
        if record.status == "pending":
            await gateway.end(id)
