"""Runs pre-flights over plans that are correct and plans that are not, and counts."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import code_faults  # noqa: F401 - registers kinds of faults
from faults import IN_SANDBOXES, KINDS, STOPPED, Breaker, Planted
from plans import Plan, Planner
from sandboxes import WithPlans, WithSandboxes

from pml_catalog.live import LiveCatalog
from pml_dry_run import plugin
from pml_dry_run.digests import shape_of
from pml_dry_run.recording import Recording
from pml_dry_run.recordings import COLLECTION, Recordings, marks_of
from pml_dry_run.settings import Settings
from pml_executor_dag.plan import graph_of
from pml_hookspecs import (
    CatalogEntry,
    ExecutionRecord,
    Outcome,
    Run,
    ServerStatus,
    Session,
    Status,
    Task,
    ToolCall,
    ToolId,
)
from pml_kit.identifiers import execution_id
from pml_kit.offers import RECORDED_ANSWERS
from pml_preflight.examination import Preflights
from pml_preflight.report import Report
from pml_preflight.settings import Settings as Chosen
from pml_search.index import Index
from pml_store_sqlite import Settings as StoreSettings
from pml_store_sqlite import SqliteStore
from pml_testing.fakes import FakeCatalog, FakeLog, FakeRun, FakeServices
from pml_testing.fakes import entry as made_entry

LONGEST = 12
"""Tasks of a plan whose fault is to be found."""
RUNS = 40
"""Of the plan whose time is taken."""
TOGETHER = 250
"""Plans that are examined at once: what takes longest, the start of a compiler, is then needed once for all of them."""
PATIENT = Chosen(executions=0, check_code_s=600.0)
HASTY = Chosen(executions=0, check_code_s=0.0)


@dataclass
class Kind:
    """How faults of one kind fared."""

    planted: int = 0
    found: int = 0


@dataclass
class Result:
    """What was counted over one catalog."""

    tools: int
    kinds: dict[str, Kind] = field(default_factory=dict)
    correct: int = 0
    alarmed: int = 0
    """Correct plans in which something was found."""
    beside: int = 0
    """Plans with a fault in which something else was found, too."""
    examples: list[str] = field(default_factory=list)
    """What was missed or found wrongly."""

    @property
    def planted(self) -> int:
        return sum(kind.planted for kind in self.kinds.values())

    @property
    def found(self) -> int:
        return sum(kind.found for kind in self.kinds.values())


class Bench:
    """One catalog, one session, no store."""

    def __init__(self, entries: Sequence[CatalogEntry], seed: int) -> None:
        self.entries = entries
        self._chance = random.Random(seed)
        self.catalog = LiveCatalog(FakeLog(), Index(FakeLog()))
        by_server: dict[str, list[CatalogEntry]] = {}
        for entry in entries:
            by_server.setdefault(entry.server, []).append(entry)
        for server, some in by_server.items():
            self.catalog.publish(server, some)
        self._servers = list(by_server)
        self._denied: Collection[str] = ()
        self.catalog.filter_with(lambda entry, _session: "policy" if entry.id in self._denied else None)
        self._services = WithSandboxes(catalog=self.catalog)  # type: ignore[arg-type] - the real thing
        self._examiner = Preflights(self._services, HASTY)
        self._run = FakeRun(session=Session(key="bench"), dry_run=True)

    async def examine(self, plan: Plan, down: Collection[str] = (), denied: Collection[str] = ()) -> Report:
        """The report of a plan."""
        for server in self._servers:
            state: Any = "down" if server in down else "up"
            self.catalog.report(ServerStatus(name=server, state=state, reason="it crashed" if server in down else ""))
        self._denied = denied
        return await self._examiner.of(plan.workflow(), self._run)

    async def measure(self, plans: int, *, sandboxes: bool) -> Result:
        """As many correct plans, and as many with a fault, the kinds in turn.

        Args:
            plans: How many of each.
            sandboxes: Whether code is checked by what really runs it.
        """
        if sandboxes:
            self._examiner = Preflights(self._services, PATIENT)
        async with self._services.open():
            return await self._measured(plans, [name for name in KINDS if sandboxes or name not in IN_SANDBOXES])

    async def _measured(self, plans: int, kinds: Sequence[str]) -> Result:
        result = Result(len(self.entries))
        planner, breaker = Planner(self.entries, self._chance), Breaker(self.entries, self._chance)
        correct = [planner.plan(self._chance.randint(2, LONGEST)) for _ in range(plans)]
        assert not any(graph_of(plan.workflow())[1] for plan in correct)
        for some in _some(correct):
            for report in await asyncio.gather(*(self.examine(plan) for plan in some)):
                result.correct += 1
                result.alarmed += bool(report.errors + report.warnings)
                result.examples += [
                    f"false alarm: {one.code} {one.line()}" for one in (report.errors + report.warnings)
                ]
        broken: list[Planted] = []
        for name in kinds:
            result.kinds[name] = Kind()
            wanted, tries = max(plans // len(kinds), 1), plans // len(kinds) * 40
            made = (breaker.break_(name, planner.plan(self._chance.randint(3, LONGEST))) for _ in range(tries))
            broken += islice((one for one in made if one is not None), wanted)
        together = [one for one in broken if not (one.down or one.denied)]
        for planted in broken:
            if planted not in together:
                self._count(planted, await self.examine(planted.plan, planted.down, planted.denied), result)
        for some in _some(together):
            reports = await asyncio.gather(*(self.examine(one.plan) for one in some))
            for planted, report in zip(some, reports, strict=True):
                self._count(planted, report, result)
        return result

    def _count(self, planted: Planted, report: Report, result: Result) -> None:
        kind = result.kinds[planted.kind]
        told = [
            one for one in (report.errors + report.warnings) if one.code in planted.codes and one.task in planted.tasks
        ]
        asks = [one for one in report.steps if one.path in planted.tasks and "policy" in one.approval]
        found = bool(asks if STOPPED in planted.codes else told)
        kind.planted += 1
        kind.found += found
        if not found:
            result.examples.append(
                f"missed: {planted.kind}: {[one.line() for one in (report.errors + report.warnings)]}"
            )
        beside = Counter(one.task for one in (report.errors + report.warnings)) - Counter(one.task for one in told)
        elsewhere = [
            one for one in (report.errors + report.warnings) if one.task in beside and one.task not in planted.tasks
        ]
        result.beside += bool(elsewhere)
        result.examples += [f"beside {planted.kind}: {one.code} {one.line()}" for one in elsewhere]


def _some(many: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(many), TOGETHER):
        yield many[start : start + TOGETHER]


@dataclass
class Times:
    """How long one plan of twenty steps took [ms]."""

    tools: int
    steps: int
    executions: int
    recordings: int
    first_ms: float
    median_ms: float
    worst_ms: float
    processor_ms: float
    """Median of the time that processors spent, which other work on the machine does not add to."""


async def times(entries: Sequence[CatalogEntry], seed: int) -> Times:
    """Of a plan of twenty steps, with a store on disk that has history and recordings."""
    bench = Bench(entries, seed)
    planner = Planner(entries, random.Random(seed))
    workflow = planner.plan(20).workflow()
    with tempfile.TemporaryDirectory() as folder:
        async with SqliteStore(StoreSettings(path=str(Path(folder) / "bench.db"))) as store:
            recordings = await _fill(store, entries)
            services = WithPlans(catalog=bench.catalog, store=store)  # type: ignore[arg-type] - the real thing
            services.offer(RECORDED_ANSWERS, Recordings(services, Settings()))
            examiner = Preflights(services, Chosen())
            taken, spent = [], []
            for _ in range(RUNS):
                # What calls took is looked up each time; compiled schemas are kept, as they are in a gateway.
                examiner._collector._history._kept.clear()
                begun, busy = time.perf_counter(), time.process_time()
                report = await examiner.of(workflow, FakeRun(session=Session(key="bench"), dry_run=True))
                report.to_report()
                taken.append((time.perf_counter() - begun) * 1000)
                spent.append((time.process_time() - busy) * 1000)
            steps = len(report.steps)
    return Times(len(entries), steps, 1000, recordings, taken[0], median(taken[1:]), max(taken[1:]), median(spent[1:]))


async def rehearsals_ms() -> float:
    """Processor time of twenty rehearsed calls of a tool with a wide schema of answers, the fastest of many [ms]."""
    items = {"type": "array", "items": {"type": "string"}}
    wide = {"type": "object", "properties": {f"p{i}": items for i in range(20)}, "required": ["p0"]}
    catalog = FakeCatalog([made_entry("s:t", outputSchema=wide)])
    wrapper = plugin.pml_wrap_executor(FakeServices(catalog=catalog, settings=Settings()))[0]
    calls = [ToolCall(id=f"t{i}", tool=ToolId("s:t")) for i in range(20)]
    run, taken = FakeRun(dry_run=True), []

    async def nothing(task: Task, run: Run) -> Outcome:
        raise AssertionError(task)

    for _ in range(RUNS):
        busy = time.process_time()
        for call in calls:
            await wrapper(call, run, nothing)
        taken.append((time.process_time() - busy) * 1000)
    return min(taken)


async def _fill(store: SqliteStore, entries: Sequence[CatalogEntry]) -> int:
    now = datetime.now(UTC)
    for i in range(1000):
        record = ExecutionRecord(
            id=execution_id(),
            kind="tool",
            target=entries[i % len(entries)].id,
            principal="local",
            status=Status.OK,
            started_at=now - timedelta(seconds=i),
            duration_ms=10 + i % 300,
            request={"query": "x" * 100},
            response={"content": [{"type": "text", "text": "x" * 2000}]},
        )
        store.executions.record(record)
    count = 0
    for entry in entries:
        for number in range(3):
            recording = Recording(
                id=f"{entry.id}-{number}",
                tool=entry.id,
                definition=entry.digest,
                principal="local",
                call=f"call-{entry.id}-{number}",
                arguments="{}",
                kind="result",
                answer='{"content":[],"structuredContent":{"id":"is_0a1b2c3d","items":[{"name":"a","n":1}]}}',
                recorded_at=now.isoformat(),
                duration_ms=12,
                epoch="1",
                number=number,
            )
            marks = marks_of(recording, shape_of("local", entry))
            store.documents.put_soon(COLLECTION, recording.id, recording.to_value(), marks=marks)
            count += 1
    await store.documents.find(COLLECTION, limit=1)
    return count
