"""Keeps what real calls were answered with: noted while the call is served, written when there is time."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from pml_hookspecs import CapabilityRun, CodeRun, Outcome, Phase, RawObject, ToolCall

from .recording_rate import ProcessorBudget, RecordingRate
from .recording_writer import AnsweredCall

if TYPE_CHECKING:
    from pml_hookspecs import CallNext, CatalogEntry, Run, Services, Task

    from .outputs import Outputs
    from .recording_writer import RecordingWriter
    from .settings import Settings

MOST_PENDING = 1000
MOST_PENDING_BYTES = 32 * 1024 * 1024
SLICE_S = 0.002
"""Longest that requests wait while recordings are written [s]."""
GATHER_S = 10.0
"""Wait for more before anything is written: a recording alone costs six times what it costs among a hundred [s]."""
MANY = 100
"""Calls that are written at once, without waiting for more."""
STORE_FACTOR = 1.6
"""What a recording costs in all, the store's thread included, to what it costs here (measured)."""
BATCH_S = 0.001
"""What waking up for some and a transaction of the store cost besides [s]."""
NOTE_S = 20e-6
"""What it costs a call to be noted, in a gateway that does little else [s]."""
MOST_REMEMBERED = 4096


class Recorder:
    """The wrapper next to the tools. Adds some microseconds to a call; everything else happens in the background.

    The first ``max_per_tool`` calls of a tool are recorded, further ones evenly
    (:class:`~pml_dry_run.recording_rate.RecordingRate`) and as long as all that is recorded takes no more than
    ``cpu_share`` of the processor time that the gateway takes (:class:`~pml_dry_run.recording_rate.ProcessorBudget`).
    Writing takes no more than that share of a processor at any time: what comes faster waits, up to
    :data:`MOST_PENDING` calls, and beyond that is not kept. What waits when the gateway ends is written then.
    """

    phase = Phase.ADAPT

    def __init__(self, services: Services, settings: Settings, writing: RecordingWriter, outputs: Outputs) -> None:
        self._services, self._catalog, self._settings = services, services.catalog, settings
        self._writing, self._outputs = writing, outputs
        self._pending: deque[AnsweredCall] = deque()
        self._pending_bytes = 0
        self._come, self._many = asyncio.Event(), asyncio.Event()
        self._on = False
        self._paces: OrderedDict[str, RecordingRate | None] = OrderedDict()
        self._budget = ProcessorBudget(settings.cpu_share)
        self.dropped = 0
        """Answers that came too fast for too long to be kept."""

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        """Let everything pass; note how tool calls and code end."""
        if not self._on:
            return call_next(task, run)
        if not isinstance(task, ToolCall):
            is_code = isinstance(task, (CodeRun, CapabilityRun))
            return self._kept(task, run, call_next) if is_code else call_next(task, run)
        entry = self._catalog.get(task.tool)
        if entry is None or not self._wants(entry):
            return call_next(task, run)
        return self._noted(entry, task, run, call_next)

    async def _noted(self, entry: CatalogEntry, task: ToolCall, run: Run, call_next: CallNext) -> Outcome:
        outcome = await call_next(task, run)
        output, arguments = outcome.output, task.arguments
        size = len(output.raw) if type(output) is RawObject else 0
        if type(arguments) is RawObject:
            size += len(arguments.raw)
        if len(self._pending) >= MOST_PENDING or self._pending_bytes + size > MOST_PENDING_BYTES:
            self._drop()
        elif size <= 2 * self._settings.max_bytes:
            self._budget.spend(NOTE_S)
            self._pending.append(AnsweredCall(entry, run.session.principal, task, outcome, size))
            self._pending_bytes += size
            self._come.set()
            if len(self._pending) >= MANY or 2 * self._pending_bytes > MOST_PENDING_BYTES:
                self._many.set()
        return outcome

    async def _kept(self, task: Task, run: Run, call_next: CallNext) -> Outcome:
        outcome = await call_next(task, run)
        try:
            self._outputs.keep(task, run.session, outcome)
        except Exception as exc:  # what code returned must not be lost because it cannot be kept
            self._services.log.warning("what code returned cannot be recorded", task=task.id, problem=repr(exc))
        self._come.set()
        return outcome

    def _wants(self, entry: CatalogEntry) -> bool:
        """Whether this call is to be recorded; what comes at a high pace passes as if nobody recorded."""
        tool = entry.id
        pace = self._paces.get(tool)
        if pace is None:
            if tool in self._paces:
                return False
            wanted = not entry.own and self._writing.wants(tool)
            pace = self._paces[tool] = RecordingRate(self._settings) if wanted else None
            if len(self._paces) > MOST_REMEMBERED:
                self._paces.popitem(last=False)
        return pace is not None and pace.allows() and (pace.is_first() or self._budget.allows(len(self._pending)))

    def _drop(self) -> None:
        if not self.dropped:
            self._services.log.warning(
                "calls come faster than they can be recorded; some are not kept for rehearsals",
                cpu_share=self._settings.cpu_share,
            )
        self.dropped += 1

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Record while entered."""
        self._on = self._settings.record
        if self._on:
            self._services.spawn(self._work, name="recordings")
        try:
            yield
        finally:
            self._on = False
            while self._pending:
                self._write_for(SLICE_S)
            self._writing.flush()
            await self._writing.trim()
            await self._outputs.trim()
            if self.dropped:
                self._services.log.warning("recordings were dropped", calls=self.dropped)

    async def written(self) -> None:
        """Wait until what was noted so far is in the store."""
        while self._pending:
            self._write_for(SLICE_S)
            await asyncio.sleep(0)
        self._flush()

    async def _work(self) -> None:
        while True:
            await self._come.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(GATHER_S):
                    await self._many.wait()
            self._come.clear()
            self._many.clear()
            while self._pending:
                await self._rest_after(self._write_for(SLICE_S))
            await self._rest_after(self._flush())
            await self._writing.trim()
            await self._outputs.trim()

    async def _rest_after(self, spent_s: float) -> None:
        await asyncio.sleep(spent_s * STORE_FACTOR * (1 / self._settings.cpu_share - 1))

    def _flush(self) -> float:
        """Write how often answers came again; the seconds that it took."""
        started = time.perf_counter()
        self._writing.flush()
        spent_s = time.perf_counter() - started
        self._budget.spend(BATCH_S + spent_s * STORE_FACTOR)
        return spent_s

    def _write_for(self, limit_s: float) -> float:
        """Write for about this long; the seconds that it took."""
        started, before = time.perf_counter(), len(self._pending)
        while self._pending:
            noted = self._pending.popleft()
            self._pending_bytes -= noted.size
            try:
                self._writing.keep(noted)
            except Exception as exc:  # no answer of a server may end the recording of others
                self._services.log.warning("an answer cannot be recorded", tool=noted.entry.id, problem=repr(exc))
            if time.perf_counter() - started >= limit_s:
                break
        spent_s = time.perf_counter() - started
        self._budget.spend(spent_s * STORE_FACTOR, before - len(self._pending))
        return spent_s
