"""The thread that ships what has ended. Everything that can be slow, or imports much, happens in it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pml_hookspecs import Services
    from pml_tracer_otel.active_executions import ActiveExecution, ServerCall
    from pml_tracer_otel.measures import Measures
    from pml_tracer_otel.options import Options

    from .exports import Exports

GRACE_S = 0.5
"""How long the end still waits for a collector that is known to take nothing [s]."""
TRANSIENT = "Transient error"
"""Begins what exporters log about a problem for which they try again."""
SILENCE_S = 60.0
"""That there is no room is said once in this time [s]."""


class Shipper:
    """A bounded buffer and the thread that empties it."""

    def __init__(self, options: Options, measures: Measures, services: Services | None) -> None:
        """Nothing runs yet."""
        self._options, self._measures = options, measures
        self._log: Any = None if services is None else services.log
        self._most, self._batch = options.buffer_spans, options.batch_spans
        self.queue: deque[ActiveExecution | ServerCall] = deque()
        """What has ended and is not exported yet; what is being exported stays in it until that has ended."""
        self.turned_away = self.exported = self.failed = 0
        """Spans for which there was no room; that the collector has; that it did not take."""
        self.trouble: dict[str, str] = {}
        """Why the collector does not take a signal."""
        self._wake = threading.Event()
        self._asked: deque[Callable[[], None]] = deque()
        self._stopping = self._left_alone = False
        self._exports: Exports | None = None
        self._shipped_changes = self._failed_when_well = 0
        self._exporting = "traces"
        self._said_full_s, self._said_full = -SILENCE_S, 0
        self._thread = threading.Thread(target=self._run, name="pml-otel", daemon=True)
        self._loop: asyncio.AbstractEventLoop
        self._gone: asyncio.Event
        self._refused: asyncio.Event

    # On the event loop

    def start(self) -> None:
        """Begin to ship."""
        self._loop, self._gone = asyncio.get_running_loop(), asyncio.Event()
        self._refused = asyncio.Event()
        self._thread.start()

    def put(self, item: ActiveExecution | ServerCall) -> None:
        """Ship ``item`` some time soon, or count it as dropped."""
        queue = self.queue
        if len(queue) >= self._most:
            self.turned_away += 1
            return
        queue.append(item)
        if len(queue) == self._batch:
            self._wake.set()

    async def flush(self, within_s: float) -> None:
        """Wait until everything that has ended was shipped, or could not be."""
        if not self._thread.is_alive():
            return
        done = asyncio.Event()
        self._asked.append(partial(self._on_loop, done.set))
        self._wake.set()
        if not await self._within(within_s, done, self._refused):
            self._write("warning", "the collector is slow; not everything was exported in time", limit_s=within_s)
        elif not done.is_set():
            await self._within(min(within_s, GRACE_S), done)

    async def _within(self, limit_s: float, *events: asyncio.Event) -> bool:
        """Whether one of ``events`` comes in time."""
        waiting = [asyncio.ensure_future(event.wait()) for event in events]
        try:
            return bool((await asyncio.wait(waiting, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED))[0])
        finally:
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def stop(self, within_s: float) -> None:
        """End the thread. What cannot be shipped within the time is counted and said."""
        self._stopping = True
        self._wake.set()
        refuses = self._refused.is_set()
        if refuses or not await self._within(within_s / 2, self._gone):
            if self._exports is not None:
                # May wait for an export that is under way, so not here.
                threading.Thread(target=self._exports.give_up, name="pml-otel-close", daemon=True).start()
            await self._within(within_s / 2, self._gone)
        if self._gone.is_set():
            self._thread.join()
        self._left_alone = True
        self.failed += len(self.queue)
        if self.failed > self._failed_when_well:
            lost = self.failed - self._failed_when_well
            self._write("warning", "spans were not exported before the end", spans=lost)

    # In the thread

    def _run(self) -> None:
        try:
            self._ship()
        except Exception as exc:
            self.trouble["traces"] = self.trouble["metrics"] = repr(exc)
            self._say("error", "nothing more is exported", problem=repr(exc))
        finally:
            for answer in [*self._asked]:
                answer()
            self._on_loop(self._gone.set)

    def _ship(self) -> None:
        from .exports import Exports

        options = self._options
        exports = self._exports = Exports(options, self._heard)
        due_s = time.monotonic() + options.metrics_interval_s
        try:
            while not self._stopping:
                self._wake.wait(min(options.interval_s, max(0.0, due_s - time.monotonic())))
                self._wake.clear()
                asked = [self._asked.popleft() for _ in range(len(self._asked))]
                self._ship_spans(exports)
                if asked or self._stopping or time.monotonic() >= due_s:
                    self._ship_metrics(exports, at_least_once=not asked and not self._stopping)
                    due_s = time.monotonic() + options.metrics_interval_s
                for answer in asked:
                    answer()
        finally:
            exports.close()

    def _ship_spans(self, exports: Exports) -> None:
        """All that wait, until the collector takes no more."""
        queue = self.queue
        while queue and not exports.given_up:
            count = min(len(queue), self._batch)
            # By index: while others append, a deque cannot be iterated.
            taken, problem = exports.spans(queue[i] for i in range(count))
            if self._left_alone:  # they are counted already
                return
            if not problem:
                self.exported += taken
            self.failed += count if problem else count - taken
            for _ in range(count):
                queue.popleft()
            self._note("traces", problem)
            if problem:
                break
            self._failed_when_well = self.failed
        self._note_full()

    def _ship_metrics(self, exports: Exports, *, at_least_once: bool) -> None:
        changes = self._measures.changes
        if self._options.metrics and not exports.given_up and (at_least_once or changes != self._shipped_changes):
            self._turn_to("metrics")
            problem = exports.metrics(self._measures)
            self._note("metrics", problem)
            self._turn_to("traces")
            if not problem:
                self._shipped_changes = changes

    def _turn_to(self, signal: str) -> None:
        self._exporting = signal
        self._on_loop(self._refused.set if self.trouble.get(signal) else self._refused.clear)

    def _heard(self, complaint: str) -> None:
        """An exporter complains; it may try again for some time before it gives up."""
        self._note(self._exporting, complaint)

    def _note(self, signal: str, problem: str) -> None:
        """Say it once when the collector stops taking a signal, and once when it takes it again."""
        before = self.trouble.get(signal)
        self._on_loop(self._refused.set if problem else self._refused.clear)
        if problem and not before and not (_passing(problem) and any(map(_passing, self.trouble.values()))):
            self._say("warning", f"the collector takes no {signal}; trying on", problem=problem)
        elif before and not problem:
            self._say("info", f"the collector takes {signal} again", dropped=self.turned_away + self.failed)
        self.trouble[signal] = problem

    def _note_full(self) -> None:
        now_s, full = time.monotonic(), self.turned_away
        # While nothing is taken there is nothing new in it.
        if full == self._said_full or self.trouble.get("traces") or now_s - self._said_full_s < SILENCE_S:
            return
        self._say("warning", "more spans than can be exported; some are dropped", dropped=full - self._said_full)
        self._said_full_s, self._said_full = now_s, full

    def _say(self, level: str, event: str, **fields: Any) -> None:
        self._on_loop(partial(self._write, level, event, **fields))

    def _write(self, level: str, event: str, **fields: Any) -> None:
        if self._log is not None:
            getattr(self._log, level)(event, **fields)

    def _on_loop(self, what: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(what)
        except RuntimeError:  # the loop is closed: nobody waits or listens any more
            return


def _passing(problem: str) -> bool:
    """Whether a problem is such that trying again may help: it is then the collector's, and not one of a signal."""
    return problem.startswith(TRANSIENT)
