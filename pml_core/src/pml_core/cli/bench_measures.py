"""What plugins cost: at the start, each in a process of its own; per call, in a gateway that serves nobody."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pml_core import local_plugins
from pml_core.chain import fold
from pml_core.config import Config
from pml_core.errors import OperatorError
from pml_core.gateway import Gateway
from pml_core.logs import Logs
from pml_core.registry import HOOK_GROUP, Record, State
from pml_core.tracing import NamedTracer, Tracing
from pml_hookspecs import CatalogEntry, Ended, MetaTool, Outcome, Run, Session, Status, Task, ToolCall, ToolId

if TYPE_CHECKING:
    from pml_core.chain import Wrapped

US = 1e6
START_LIMIT_S = 60.0
SERVER = "bench"
TOOL = ToolId(f"{SERVER}:echo")
ARGUMENTS = {"path": "/srv/data/report.csv", "n": 1}
DEFINITION = {
    "name": "echo",
    "description": "Echo the arguments",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}, "n": {"type": "integer"}}},
    "annotations": {"readOnlyHint": True},
}
START = """
import sys, time
from importlib import metadata
import asyncio, pml_hookspecs
group, name, value, settings = sys.argv[1:]
class Log:
    def __getattr__(self, level): return lambda *a, **k: self
class Services:
    plugin, log, catalog, embedder = name, Log(), (), None
    def __getattr__(self, member): raise RuntimeError("nothing runs")
before = len(sys.modules)
began = time.perf_counter()
if value.endswith(".py"):
    exec(compile(open(value, "rb").read(), value, "exec"), {"__name__": "local"})
else:
    made = metadata.EntryPoint(name, value, group).load()
    if settings == "yes":
        kind = getattr(made, "settings_type", None)
        made(None if kind is None else kind(), Services())
print((time.perf_counter() - began) * 1e3, len(sys.modules) - before)
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """The median of some rounds, and how far they differ."""

    median: float
    spread: float
    """Between the first and the third quartile."""

    @classmethod
    def of(cls, rounds: Sequence[float]) -> Figure:
        """Of at least one round."""
        if len(rounds) == 1:
            return cls(rounds[0], 0.0)
        low, _, high = statistics.quantiles(rounds, n=4, method="inclusive")
        return cls(statistics.median(rounds), high - low)


@dataclass(slots=True)
class Cost:
    """What one plugin costs."""

    record: Record
    start_ms: Figure | None = None
    modules: int = 0
    """That its import brings along."""
    call_us: Figure | None = None
    """None when nothing of it is run per call."""
    note: str = ""


def start_up(record: Record, rounds: int) -> Cost:
    """Import a plugin, and construct it if it is a driver, in a new process each time."""
    drives = "no" if record.group == HOOK_GROUP else "yes"
    words = [sys.executable, "-P", "-c", START, record.group, record.name, record.target, drives]
    cost, took = Cost(record), []
    for _ in range(rounds):
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=START_LIMIT_S)
            milliseconds, modules = done.stdout.split()[-2:]
        except subprocess.CalledProcessError as exc:
            cost.note = f"does not start alone: {exc.stderr.strip().rpartition(chr(10))[2]}"
            return cost
        except (subprocess.TimeoutExpired, ValueError) as exc:
            cost.note = f"does not start alone: {type(exc).__name__}"
            return cost
        took.append(float(milliseconds))
        cost.modules = int(modules)
    cost.start_ms = Figure.of(took)
    return cost


@contextmanager
def _a_home_of_its_own() -> Iterator[None]:
    """Nothing of what is measured is kept among the user's data."""
    before = os.environ.get("PML_HOME")
    with tempfile.TemporaryDirectory(prefix="pml-bench-") as folder:
        os.environ["PML_HOME"] = folder
        try:
            yield
        finally:
            os.environ.pop("PML_HOME")
            if before is not None:
                os.environ["PML_HOME"] = before


@dataclass(frozen=True, slots=True)
class Calls:
    """What calls cost."""

    by_plugin: Mapping[tuple[str, str], Figure]
    """Processor time per call [us], by kind and name."""
    notes: Mapping[tuple[str, str], str]
    alone_us: Figure
    """A call through the gateway with no wrapper and no tracer."""
    together_us: Figure
    """With all wrappers and tracers that are in use."""


def per_call(config: Config, *, rounds: int, calls: int) -> Calls:
    """Measure wrappers, filters, tracers and the store.

    Raises:
        OperatorError: No gateway can be made under this configuration.
    """
    with _a_home_of_its_own():
        return asyncio.run(_per_call(config, rounds, calls))


async def _per_call(config: Config, rounds: int, calls: int) -> Calls:
    records = local_plugins.found(config)
    stores = [record for record in records if record.kind == "store"]
    others = [record for record in records if record.kind != "store"]
    gateway_settings = replace(config.gateway, tracers=(), strict=False)
    # Without sources nothing was asked for by name, and executions are kept in memory.
    tried = replace(config, servers={}, gateway=gateway_settings, sources=())
    figures: dict[tuple[str, str], Figure] = {}
    notes: dict[tuple[str, str], str] = {}
    async with Gateway(tried, Logs("error"), others, connect=False) as gateway:
        bench = _Bench(gateway, rounds, calls)
        await bench.prepare()
        for wrapped in gateway.wrappers:
            if wrapped.plugin != "core":
                figures["hooks", wrapped.plugin] = await bench.wrapper(wrapped, notes)
        for plugin, keeps in gateway.filters:
            figures["hooks", plugin] = _sum(figures.get(("hooks", plugin)), await bench.filter(keeps))
        tracers = await bench.tracers(config.gateway.tracers, figures, notes)
        alone = await bench.whole(())
        together = await bench.whole(gateway.wrappers, tracers)
    for record in stores:
        if record.state is State.FOUND:
            try:
                figures["store", record.name] = await _store(record, rounds, calls)
            except Exception as exc:
                notes["store", record.name] = f"not measured: {type(exc).__name__}: {exc}"
    return Calls(figures, notes, alone, together)


def _sum(one: Figure | None, other: Figure) -> Figure:
    return other if one is None else Figure(one.median + other.median, one.spread + other.spread)


async def _store(record: Record, rounds: int, calls: int) -> Figure:
    """Processor time of keeping one call's execution, what is written later included."""
    from pml_core.identifiers import execution_id
    from pml_hookspecs import ExecutionRecord

    cls = record.provided or record.entry_point.load()
    kind, took = getattr(cls, "settings_type", None), []
    for _ in range(rounds):
        rows = [
            ExecutionRecord(
                id=execution_id(), kind="tool", target=TOOL, principal="local", status=Status.OK,
                started_at=datetime.now(UTC), duration_ms=1, request=ARGUMENTS, response={"content": []},
            )
            for _ in range(calls)
        ]  # fmt: skip
        store = cls(None if kind is None else kind(), None)
        await store.__aenter__()
        began = time.process_time()
        for row in rows:
            store.executions.record(row)
        await store.__aexit__(None, None, None)
        took.append((time.process_time() - began) / calls * US)
    return Figure.of(took)


class _Bench:
    """Takes times in one gateway."""

    def __init__(self, gateway: Gateway, rounds: int, calls: int) -> None:
        self._gateway, self._rounds, self._calls = gateway, rounds, calls
        self._session = Session(key=SERVER)
        self._task: Task = ToolCall(id="bench", tool=TOOL, arguments=ARGUMENTS)
        self._entry: CatalogEntry
        self._run: Run
        self._outcome = Outcome(
            task_id="bench", status=Status.OK, started_at=datetime.now(UTC), duration_ms=1, output={"content": []}
        )

    async def prepare(self) -> None:
        """Have a tool, and a run of it as wrappers get to see it."""

        async def echo(arguments: Mapping[str, Any], _run: Run) -> Mapping[str, Any]:
            return arguments

        services = self._gateway._services_for(SERVER, None)  # noqa: SLF001 - as one plugin more
        services.publish(SERVER, [MetaTool(definition=DEFINITION, call=echo)])
        seen: list[tuple[Task, Run]] = []

        async def keep(task: Task, run: Run) -> Outcome:
            seen.append((task, run))
            return self._outcome

        dispatcher = self._gateway.dispatcher
        before, dispatcher.chain = dispatcher.chain, keep
        await dispatcher.start(self._task, self._session)
        dispatcher.chain = before
        ((self._task, self._run),) = seen
        entry = self._gateway.catalog.get(TOOL)
        if entry is None:
            raise OperatorError("the tool of the benchmark is not in the catalog")
        self._entry = entry

    async def _instant(self, task: Task, run: Run) -> Outcome:
        return self._outcome

    async def _time(self, work: Callable[[], Awaitable[None]]) -> float:
        """Processor time of one call of as many [us]."""
        gc.collect()
        gc.disable()
        try:
            began = time.process_time()
            await work()
            return (time.process_time() - began) / self._calls * US
        finally:
            gc.enable()

    async def _difference(self, much: Callable[[], Awaitable[None]], less: Callable[[], Awaitable[None]]) -> Figure:
        """What one does more than the other, taken in turns."""
        await much()
        pairs = [(await self._time(much), await self._time(less)) for _ in range(self._rounds)]
        return Figure.of([one - other for one, other in pairs])

    async def wrapper(self, wrapped: Wrapped, notes: dict[tuple[str, str], str]) -> Figure:
        """A chain with it, less one without."""
        log, task, run = self._gateway.log, self._task, self._run
        with_it, without = fold([wrapped], self._instant, log), fold([], self._instant, log)
        ended = await with_it(task, run)
        if ended is not self._outcome:
            notes["hooks", wrapped.plugin] = f"answers by itself: {ended.status}"

        def through(chain: Callable[[Task, Run], Awaitable[Outcome]]) -> Callable[[], Awaitable[None]]:
            async def work() -> None:
                for _ in range(self._calls):
                    await chain(task, run)

            return work

        return await self._difference(through(with_it), through(without))

    async def filter(self, keeps: Callable[[CatalogEntry, Session], bool]) -> Figure:
        """Asked once per call."""

        async def work() -> None:
            for _ in range(self._calls):
                keeps(self._entry, self._session)

        async def nothing() -> None:
            for _ in range(self._calls):
                pass

        return await self._difference(work, nothing)

    async def tracers(
        self, chosen: Sequence[str], figures: dict[tuple[str, str], Figure], notes: dict[tuple[str, str], str]
    ) -> list[NamedTracer]:
        """Each by itself, what it does later included; those that are in use."""
        in_use = []
        for name in self._gateway.assembly.installed("tracer"):
            try:
                tracer = self._gateway.assembly.driver("tracer", name)
                await self._gateway.supervisor.enter(name, tracer, required=True)
                self._gateway.supervisor.on_close(tracer.flush)
                figures["tracer", name] = await self._tracer(tracer)
            except OperatorError as exc:
                notes["tracer", name] = exc.message
                continue
            if name in chosen:
                in_use.append(NamedTracer(name, tracer))
        return in_use

    async def _tracer(self, tracer: Any) -> Figure:
        seen: list[Ended] = []

        class Watch:
            def started(self, span: Any) -> None:
                """Nothing yet."""

            def ended(self, ended: Ended) -> None:
                seen.append(ended)

            async def flush(self) -> None:
                """Nothing to do."""

        tracing = Tracing([NamedTracer("watch", Watch())], self._gateway.log)
        run: Any = self._run
        for _ in range(self._calls):
            tracing.end(tracing.start(self._task, run), self._outcome)

        async def work() -> None:
            for ended in seen:
                tracer.started(ended.span)
                tracer.ended(ended)
            await tracer.flush()

        async def nothing() -> None:
            for _ in seen:
                pass

        return await self._difference(work, nothing)

    async def whole(self, wrappers: Sequence[Wrapped], tracers: Sequence[NamedTracer] = ()) -> Figure:
        """Calls through the dispatcher, recorded as ever, to a server that answers at once."""
        dispatcher = self._gateway.dispatcher
        # The gateway is nobody's but the bench's.
        before = dispatcher.chain, dispatcher._tracing  # noqa: SLF001
        dispatcher.chain = fold(wrappers, self._instant, self._gateway.log)
        dispatcher._tracing = Tracing(tracers, self._gateway.log)  # noqa: SLF001

        async def work() -> None:
            for _ in range(self._calls):
                await dispatcher.start(ToolCall(id="bench", tool=TOOL, arguments=ARGUMENTS), self._session)
            for named in tracers:
                await named.tracer.flush()

        await work()
        took = [await self._time(work) for _ in range(self._rounds)]
        dispatcher.chain, dispatcher._tracing = before  # noqa: SLF001
        return Figure.of(took)


def as_json(costs: Sequence[Cost], calls: Calls) -> str:
    """Everything that was measured, as one JSON document."""
    plugins = [
        {
            "kind": cost.record.kind,
            "name": cost.record.name,
            "origin": cost.record.origin,
            "start_ms": _plain(cost.start_ms),
            "modules": cost.modules,
            "call_us": _plain(cost.call_us),
            "note": cost.note,
        }
        for cost in costs
    ]
    whole = {"alone_us": _plain(calls.alone_us), "together_us": _plain(calls.together_us)}
    return json.dumps({"plugins": plugins, "call": whole}, indent=2, ensure_ascii=False)


def _plain(figure: Figure | None) -> dict[str, float] | None:
    return None if figure is None else {"median": round(figure.median, 3), "spread": round(figure.spread, 3)}
