"""What plugins cost: at the start, each in a process of its own; per call, in a gateway that serves nobody."""

from __future__ import annotations

import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING, Any, TypeAlias

from pml_hookspecs import (
    CallNext,
    CatalogEntry,
    Ended,
    ExecutionId,
    ExecutionRecord,
    InvalidArguments,
    MetaTool,
    Outcome,
    Phase,
    Run,
    RunOptions,
    Session,
    Span,
    Status,
    Task,
    ToolCall,
    ToolFilter,
    ToolId,
    Tracer,
    Wrapper,
)

if TYPE_CHECKING:
    from pml_hookspecs import Services
    from pml_kit.command_line.trial import Trial

Plugin: TypeAlias = Mapping[str, str]
"""As ``pml plugins list --json`` tells of it."""
FOUND = "found"
"""State of what can be used."""
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

    plugin: Plugin
    start_ms: Figure | None = None
    modules: int = 0
    """That its import brings along."""
    call_us: Figure | None = None
    """None when nothing of it is run per call."""
    note: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Its kind and name."""
        return self.plugin["kind"], self.plugin["name"]


def _group(plugin: Plugin) -> str:
    """Of its entry point."""
    return "pml.plugins" if plugin["kind"] == "hooks" else f"pml.{plugin['kind']}"


def start_up(plugin: Plugin, rounds: int) -> Cost:
    """Import a plugin, and construct it if it is a driver, in a new process each time."""
    drives = "no" if plugin["kind"] == "hooks" else "yes"
    words = [sys.executable, "-P", "-c", START, _group(plugin), plugin["name"], plugin["target"], drives]
    cost, took = Cost(plugin), []
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


async def per_call(services: Services, trial: Trial, *, rounds: int, calls: int) -> Calls:
    """Measure wrappers, filters, tracers and stores."""
    bench = _Bench(services, trial, rounds, calls)
    await bench.prepare()
    for plugin, wrapper in trial.hooks["pml_wrap_executor"]:
        if plugin != "core":
            bench.figures["hooks", plugin] = await bench.wrapper(plugin, wrapper)
    for plugin, keeps in trial.hooks["pml_filter_tools"]:
        bench.figures["hooks", plugin] = _sum(bench.figures.get(("hooks", plugin)), await bench.filter(keeps))
    tracers = await bench.tracers()
    alone = await bench.whole((), ())
    together = await bench.whole(trial.hooks["pml_wrap_executor"], tracers)
    for one in trial.plugins:
        if one["kind"] == "store" and one["state"] == FOUND:
            try:
                bench.figures["store", one["name"]] = await _store(one, rounds, calls)
            except Exception as exc:
                bench.notes["store", one["name"]] = f"not measured: {type(exc).__name__}: {exc}"
    return Calls(bench.figures, bench.notes, alone, together)


def _sum(one: Figure | None, other: Figure) -> Figure:
    return other if one is None else Figure(one.median + other.median, one.spread + other.spread)


def _ids(count: int) -> list[ExecutionId]:
    """As those of executions that begin now, in order."""
    now = f"{time.time_ns() // 1_000_000:012x}"
    return [ExecutionId(f"{now[:8]}-{now[8:]}-7000-8000-{number:012x}") for number in range(count)]


async def _store(plugin: Plugin, rounds: int, calls: int) -> Figure:
    """Processor time of keeping one call's execution, what is written later included."""
    cls = metadata.EntryPoint(plugin["name"], plugin["target"], _group(plugin)).load()
    kind, took = getattr(cls, "settings_type", None), []
    for _ in range(rounds):
        rows = [
            ExecutionRecord(
                id=id, kind="tool", target=TOOL, principal="local", status=Status.OK,
                started_at=datetime.now(UTC), duration_ms=1, request=ARGUMENTS, response={"content": []},
            )
            for id in _ids(calls)
        ]  # fmt: skip
        store = cls(None if kind is None else kind(), None)
        await store.__aenter__()
        began = time.process_time()
        for row in rows:
            store.executions.record(row)
        await store.__aexit__(None, None, None)
        took.append((time.process_time() - began) / calls * US)
    return Figure.of(took)


class _First:
    """Keeps the task and the run that it is called with first, as wrappers get to see them."""

    phase = Phase.OBSERVE
    seen: tuple[Task, Run] | None = None

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        self.seen = self.seen or (task, run)
        return call_next(task, run)


class _Spans:
    """Keeps what a tracer is told."""

    def __init__(self) -> None:
        self.ended_ones: list[Ended] = []

    def started(self, span: Span) -> None:
        """Nothing yet."""

    def ended(self, ended: Ended) -> None:
        self.ended_ones.append(ended)

    async def flush(self) -> None:
        """Nothing to do."""


class _Bench:
    """Takes times in one gateway."""

    def __init__(self, services: Services, trial: Trial, rounds: int, calls: int) -> None:
        self._services, self._trial, self._rounds, self._calls = services, trial, rounds, calls
        self._session = Session(key=SERVER)
        self._task: Task
        self._entry: CatalogEntry
        self._run: Run
        self._spans: Sequence[Ended] = ()
        self._outcome = Outcome(
            task_id="bench", status=Status.OK, started_at=datetime.now(UTC), duration_ms=1, output={"content": []}
        )
        self.figures: dict[tuple[str, str], Figure] = {}
        self.notes: dict[tuple[str, str], str] = {}

    async def prepare(self) -> None:
        """Have a tool, a run of it as wrappers get to see it, and spans as tracers do."""

        async def echo(arguments: Mapping[str, Any], _run: Run) -> Mapping[str, Any]:
            return arguments

        self._services.publish(SERVER, [MetaTool(definition=DEFINITION, call=echo)])
        (self._entry,) = (entry for entry in self._services.catalog if entry.id == TOOL)
        first, spans = _First(), _Spans()
        self._trial.use([("bench", first)], [("bench", spans)], self._instant)
        for _ in range(self._calls):
            await self._call()
        if first.seen is None:
            raise InvalidArguments("the tool of the benchmark cannot be called\nSee pml plugins doctor.")
        (self._task, self._run), self._spans = first.seen, spans.ended_ones

    async def _call(self) -> None:
        """One call of the tool, for a client."""
        task = ToolCall(id="bench", tool=TOOL, arguments=ARGUMENTS)
        await self._services.run(task, self._session, RunOptions(trigger="mcp"))

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

    async def wrapper(self, plugin: str, wrapper: Wrapper) -> Figure:
        """A chain with it, less one without."""
        task, run = self._task, self._run
        with_it = self._trial.use([(plugin, wrapper)], (), self._instant)
        without = self._trial.use((), (), self._instant)
        ended = await with_it(task, run)
        if ended is not self._outcome:
            self.notes["hooks", plugin] = f"answers by itself: {ended.status}"

        def through(chain: CallNext) -> Callable[[], Awaitable[None]]:
            async def work() -> None:
                for _ in range(self._calls):
                    await chain(task, run)

            return work

        return await self._difference(through(with_it), through(without))

    async def filter(self, keeps: ToolFilter) -> Figure:
        """Asked once per call."""

        async def work() -> None:
            for _ in range(self._calls):
                keeps(self._entry, self._session)

        async def nothing() -> None:
            for _ in range(self._calls):
                pass

        return await self._difference(work, nothing)

    async def tracers(self) -> list[tuple[str, Tracer]]:
        """Each by itself, what it does later included; those that are in use."""
        in_use = []
        for plugin in self._trial.plugins:
            name = plugin["name"]
            if plugin["kind"] != "tracer" or plugin["state"] != FOUND:
                continue
            try:
                tracer: Tracer = await self._trial.driver("tracer", name)
                self.figures["tracer", name] = await self._tracer(tracer)
            except Exception as exc:
                self.notes["tracer", name] = str(exc).partition("\n")[0]
                continue
            if name in self._trial.tracers:
                in_use.append((name, tracer))
        return in_use

    async def _tracer(self, tracer: Tracer) -> Figure:
        async def work() -> None:
            for ended in self._spans:
                tracer.started(ended.span)
                tracer.ended(ended)
            await tracer.flush()

        async def nothing() -> None:
            for _ in self._spans:
                pass

        return await self._difference(work, nothing)

    async def whole(self, wrappers: Sequence[tuple[str, Wrapper]], tracers: Sequence[tuple[str, Tracer]]) -> Figure:
        """Calls of the tool, recorded as ever, to a server that answers at once."""
        self._trial.use(wrappers, tracers, self._instant)

        async def work() -> None:
            for _ in range(self._calls):
                await self._call()
            for _, tracer in tracers:
                await tracer.flush()

        await work()
        return Figure.of([await self._time(work) for _ in range(self._rounds)])


def as_json(costs: Sequence[Cost], calls: Calls) -> dict[str, Any]:
    """Everything that was measured, as JSON."""
    plugins = [
        {
            "kind": cost.plugin["kind"],
            "name": cost.plugin["name"],
            "origin": cost.plugin["file"] or f"{cost.plugin['distribution']} {cost.plugin['version']}",
            "start_ms": _plain(cost.start_ms),
            "modules": cost.modules,
            "call_us": _plain(cost.call_us),
            "note": cost.note,
        }
        for cost in costs
    ]
    whole = {"alone_us": _plain(calls.alone_us), "together_us": _plain(calls.together_us)}
    return {"plugins": plugins, "call": whole}


def _plain(figure: Figure | None) -> dict[str, float] | None:
    return None if figure is None else {"median": round(figure.median, 3), "spread": round(figure.spread, 3)}
