"""Counts and durations, kept on the request path for less than an exporter's own instruments would cost."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from . import names

if TYPE_CHECKING:
    from .active_executions import ActiveExecution, ServerCall

BOUNDS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Upper bounds of the buckets, as the conventions for MCP have them [s]."""
MOST_SERIES = 2000
"""Series of one metric; what would be further ones is counted together."""
NS = 1e-9
CALL = (names.TOOLS_CALL, names.EXECUTE_TOOL)
Key = tuple[str, ...]
"""Values of attributes, in the order of their names; ``""`` for one that is left out."""


@dataclass(frozen=True, slots=True)
class Point:
    """One series of a metric at one moment."""

    attributes: Mapping[str, str]
    value: float
    """What was counted; of a histogram, the sum."""
    buckets: tuple[int, ...] = ()
    """Counts of a histogram's buckets: one more than there are bounds."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric at one moment."""

    name: str
    unit: str
    description: str
    kind: Literal["counter", "level", "histogram"]
    points: tuple[Point, ...]


class _Series:
    __slots__ = ("buckets", "value")

    def __init__(self, buckets: int) -> None:
        self.value: float = 0
        self.buckets = [0] * buckets


_Found = tuple[list[_Series], list[_Series]]
"""Counters and histograms."""


class _Instrument:
    def __init__(self, name: str, unit: str, description: str, by: Iterable[str], *, histogram: bool = False) -> None:
        self._about = (name, unit, description)
        self._names, self._histogram = tuple(by), histogram
        self._series: dict[Key | None, _Series] = {}

    def of(self, key: Key) -> _Series:
        """The series of ``key``."""
        series = self._series.get(key)
        if series is None:
            full = len(self._series) >= MOST_SERIES - 1
            new = _Series(len(BOUNDS_S) + 1 if self._histogram else 0)
            series = self._series.setdefault(None if full else key, new)
        return series

    def add(self, key: Key, value: float = 1) -> None:
        """Count, or measure."""
        series = self.of(key)
        if self._histogram:
            series.buckets[bisect_left(BOUNDS_S, value)] += 1
        series.value += value

    def now(self) -> Metric:
        """As it is now. Safe in another thread: each series is read as it was at some moment."""
        points = []
        for key, series in list(self._series.items()):
            said = {names.OVERFLOW: "true"} if key is None else dict(zip(self._names, key, strict=True))
            points.append(Point({n: v for n, v in said.items() if v != ""}, series.value, tuple(series.buckets)))
        return Metric(*self._about, "histogram" if self._histogram else "counter", tuple(points))


class Measures:
    """All metrics of one gateway."""

    def __init__(self) -> None:
        """Nothing has happened yet."""
        self.start_ns = time.time_ns()
        """Since when [ns, Unix time]."""
        self.changes = 0
        """How often something was counted."""
        self.levels: list[Callable[[], Metric]] = []
        """What others know, such as how full a buffer is."""
        self._alike: dict[object, _Found] = {}
        kind, server, tool, error = names.KIND, names.SERVER, names.TOOL, names.ERROR
        mode, asked = names.MODE, (names.METHOD, names.OPERATION, names.TOOL, names.ERROR)
        by_status = (kind, names.STATUS, server, tool, mode, names.DRY_RUN)
        self._executions = _Instrument("pml.executions", "{execution}", "Executions that have ended.", by_status)
        by_error = (error, kind, server, tool, mode)
        self._errors = _Instrument("pml.errors", "{execution}", "Executions that ended with an error.", by_error)
        self._durations = _Instrument(
            "pml.execution.duration", "s", "How long executions took, whoever asked for them.",
            (kind, server, tool, mode), histogram=True,
        )  # fmt: skip
        self._served = _Instrument(
            "mcp.server.operation.duration", "s", "How long clients' tool calls took.",
            (*asked, names.PROTOCOL_VERSION, server, mode), histogram=True,
        )  # fmt: skip
        self._asked = _Instrument(
            "mcp.client.operation.duration", "s", "How long servers took to answer tool calls.",
            (*asked, names.RPC_STATUS, server), histogram=True,
        )  # fmt: skip
        self._workflows = _Instrument(
            "gen_ai.workflow.duration", "s", "How long workflows took.", (error,), histogram=True
        )

    def executed(self, watched: ActiveExecution) -> None:
        """An execution has ended."""
        self.changes += 1
        span, ended, session = watched.span, watched.ended, watched.session
        mode, protocol = ("", "") if session is None else (session.mode, session.protocol)
        tool = watched.tool if watched.known else ""
        error: object = ended.attributes.get(names.ERROR)
        alike = (span.name, span.kind, tool, ended.status, error, watched.rpc_code, mode, protocol, watched.dry_run)
        found = self._alike.get(alike)
        if found is None:
            found = self._series_of(watched, tool, mode, protocol)
            if len(self._alike) < MOST_SERIES:
                self._alike[alike] = found
        counters, histograms = found
        for series in counters:
            series.value += 1
        duration_s = (ended.end_ns - span.start_ns) * NS
        bucket = bisect_left(BOUNDS_S, duration_s)
        for series in histograms:
            series.buckets[bucket] += 1
            series.value += duration_s

    def _series_of(self, watched: ActiveExecution, tool: str, mode: str, protocol: str) -> _Found:
        """What executions that end like ``watched`` are counted in."""
        kind, error, server = watched.kind, watched.error, watched.server if tool else ""
        status, dry_run = str(watched.ended.status), "true" if watched.dry_run else ""
        counters = [self._executions.of((kind, status, server, tool, mode, dry_run))]
        histograms = [self._durations.of((kind, server, tool, mode))]
        if error:
            counters.append(self._errors.of((error, kind, server, tool, mode)))
        if kind == "tool" and watched.span.kind == "server":
            histograms.append(self._served.of((*CALL, tool, error, protocol, server, mode)))
        elif kind == "workflow":
            histograms.append(self._workflows.of((error,)))
        return counters, histograms

    def called(self, call: ServerCall) -> None:
        """A server has answered, or has not."""
        self.changes += 1
        duration_s = (call.end_ns - call.start_ns) * NS
        tool = call.tool if call.known else ""
        self._asked.add((*CALL, tool, call.error, call.rpc_code, call.server), duration_s)

    def now(self) -> list[Metric]:
        """All metrics that have anything to say. Safe in another thread."""
        instruments = (
            self._executions, self._errors, self._durations, self._served, self._asked, self._workflows,
        )  # fmt: skip
        metrics = [instrument.now() for instrument in instruments] + [level() for level in self.levels]
        return [metric for metric in metrics if metric.points]


def level(name: str, unit: str, description: str, read: Callable[[], int]) -> Callable[[], Metric]:
    """A metric that goes up and down, read when it is asked for."""
    return lambda: Metric(name, unit, description, "level", (Point({}, read()),))


def counter(
    name: str, unit: str, description: str, read: Callable[[], Iterable[tuple[Mapping[str, str], int]]]
) -> Callable[[], Metric]:
    """A metric that others count, read when it is asked for; what is 0 is left out."""
    return lambda: Metric(name, unit, description, "counter", tuple(Point(a, v) for a, v in read() if v))
