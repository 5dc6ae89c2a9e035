"""What is measured of a subject: three parts, each in processes of its own, and every answer is checked.

Each part returns numbers by the names that :mod:`table` knows. A part that cannot be measured raises
:class:`client.BenchError`.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import processes
from client import Answer, BenchError, WrongAnswerError
from server import blob
from subjects import Session, Subject

FOUR = ("alpha", "bravo", "charlie", "delta")
SEVEN = (*FOUR, "echo", "foxtrot", "golf")
TOOLS_EACH = 25
TOOLS_EACH_OF_MANY = 100
WARM_UP_CALLS = 20
IN_FLIGHT = 64
SLEEP_MS = 50
PENDING_MS = 2000
MARGIN_S = 0.2
"""Before the pending call's end no further one is begun within this time."""
SETTLED_S = 0.15
SETTLING_S = 2.0
US_PER_S = 1e6
MS_PER_S = 1e3


@dataclass(frozen=True)
class Effort:
    """How often each thing is done in one round."""

    calls: int = 3000
    calls_s: float = 4.0
    """No longer than this, however few they were."""
    flight_s: float = 2.0
    lists: int = 15
    fans: int = 3
    pending_calls: int = 200
    blobs: int = 7
    big_blobs: int = 3


QUICK = Effort(calls=200, calls_s=1.0, flight_s=0.5, lists=4, fans=1, pending_calls=40, blobs=2, big_blobs=1)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """No garbage collection of ours while something is timed."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def _settled_cpu_s(session: Session) -> float:
    """CPU time of the gateway once it rests: what it does behind the calls, such as recording them, is theirs too."""
    pids = session.gateway_pids()
    used = processes.cpu_s(pids)
    until = time.perf_counter() + SETTLING_S
    while time.perf_counter() < until:
        await asyncio.sleep(SETTLED_S)
        before, used = used, processes.cpu_s(pids)
        if used == before:
            break
    return used


async def _timed(session: Session, server: str, text: str) -> float:
    """How long one echo takes [s]."""
    began = time.perf_counter()
    answer = await session.call(server, "echo", text=text)
    answer.check(text)
    return answer.at - began


async def start(subject: Subject, folder: Path, effort: Effort) -> dict[str, float]:
    """From starting the gateway to its first list of tools, which must be complete: the first time, and again."""
    del effort
    numbers = {}
    for name in ("start_ms", "start_again_ms"):
        session = Session(subject, dict.fromkeys(FOUR, TOOLS_EACH), folder)
        began = time.perf_counter()
        async with session:
            numbers[name] = (await session.listed() - began) * MS_PER_S
            # An answer from what was kept may come before the servers do; ending them then would be a test of its own.
            await session.find_servers()
    return numbers


async def listing(subject: Subject, folder: Path, effort: Effort) -> dict[str, float]:
    """``tools/list`` of 700 tools."""
    async with Session(subject, dict.fromkeys(SEVEN, TOOLS_EACH_OF_MANY), folder) as session:
        await session.listed()
        took = []
        for _ in range(effort.lists):
            with _undisturbed():
                began = time.perf_counter()
                took.append((await session.listed() - began) * MS_PER_S)
        return {"list_ms": statistics.median(took)}


async def calls(subject: Subject, folder: Path, effort: Effort) -> dict[str, float]:
    """Calls of every kind to four servers, and what they cost the gateway."""
    async with Session(subject, dict.fromkeys(FOUR, TOOLS_EACH), folder) as session:
        await session.listed()
        await session.find_servers()
        for number in range(WARM_UP_CALLS):
            for server in FOUR:
                await _timed(session, server, f"warm-up {number}")
        measured = {"memory_mb": processes.resident_mb(session.gateway_pids())} if session.gateway_pids() else {}
        measured |= await _one_by_one(session, effort)
        measured |= await _in_flight(session, effort)
        measured |= await _side_by_side(session, effort)
        measured |= await _while_pending(session, effort)
        measured["blob_1_ms"] = await _blobs(session, 1_000_000, effort.blobs)
        measured["blob_10_ms"] = await _blobs(session, 10_000_000, effort.big_blobs)
        if session.gateway_pids():
            measured["memory_after_mb"] = processes.resident_mb(session.gateway_pids())
        if subject.proof is not None:
            await subject.proof(session)
        return measured


async def _one_by_one(session: Session, effort: Effort) -> dict[str, float]:
    took: list[float] = []
    cpu_s = await _settled_cpu_s(session)
    with _undisturbed():
        until = time.perf_counter() + effort.calls_s
        while len(took) < effort.calls and time.perf_counter() < until:
            took.append(await _timed(session, FOUR[0], f"call {len(took)}"))
    measured = {"echo_us": statistics.median(took) * US_PER_S}
    if session.gateway_pids():
        measured["echo_cpu_us"] = (await _settled_cpu_s(session) - cpu_s) / len(took) * US_PER_S
    return measured


class _Flight:
    """Keeps a number of echoes under way. Sends the next when an answer comes, without a task or a future for each."""

    def __init__(self, session: Session, until: float) -> None:
        self._session, self._until = session, until
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open = 0
        self.answered, self.last = 0, 0.0

    async def fly(self, width: int) -> None:
        for number in range(width):
            self._next(FOUR[number % len(FOUR)])
        await self._over

    def _next(self, server: str) -> None:
        self._open += 1
        text = f"call {self._session.calls}"
        connection, params = self._session.route(server, "echo", {"text": text})
        connection.send("tools/call", params, lambda answer: self._answered(server, text, answer))

    def _answered(self, server: str, text: str, answer: Answer | None) -> None:
        self._open -= 1
        if self._over.done():
            return
        try:
            if answer is None:
                raise self._session.route(server, "echo", {})[0].gone()
            answer.check(text)
        except BenchError as exc:
            self._over.set_exception(exc)
            return
        self.answered, self.last = self.answered + 1, answer.at
        if answer.at < self._until:
            self._next(server)
        elif not self._open:
            self._over.set_result(None)


async def _in_flight(session: Session, effort: Effort) -> dict[str, float]:
    cpu_s = await _settled_cpu_s(session)
    with _undisturbed():
        began = time.perf_counter()
        flight = _Flight(session, began + effort.flight_s)
        await flight.fly(IN_FLIGHT)
    measured = {"flight_per_s": flight.answered / (flight.last - began)}
    if session.gateway_pids():
        measured["flight_cpu_us"] = (await _settled_cpu_s(session) - cpu_s) / flight.answered * US_PER_S
    return measured


async def _side_by_side(session: Session, effort: Effort) -> dict[str, float]:
    times_ideal = []
    for _ in range(effort.fans):
        with _undisturbed():
            began = time.perf_counter()
            calls = (session.call(FOUR[n % len(FOUR)], "sleep", ms=SLEEP_MS) for n in range(IN_FLIGHT))
            answers = await asyncio.gather(*calls)
        for answer in answers:
            answer.check(f"slept {SLEEP_MS}")
        times_ideal.append((max(answer.at for answer in answers) - began) * MS_PER_S / SLEEP_MS)
    return {"sleeps": statistics.median(times_ideal)}


async def _while_pending(session: Session, effort: Effort) -> dict[str, float]:
    """Echoes of a server that has a long call open."""
    took: list[float] = []
    began = time.perf_counter()
    pending = asyncio.ensure_future(session.call(FOUR[0], "sleep", ms=PENDING_MS))
    try:
        await asyncio.sleep(SLEEP_MS / MS_PER_S)
        until = began + PENDING_MS / MS_PER_S - MARGIN_S
        with _undisturbed():
            while len(took) < effort.pending_calls and time.perf_counter() < until:
                took.append(await _timed(session, FOUR[0], f"meanwhile {len(took)}"))
        answer = await pending
    finally:
        pending.cancel()
    answer.check(f"slept {PENDING_MS}")
    if answer.at - began < PENDING_MS / MS_PER_S:
        raise WrongAnswerError(f"a sleep of {PENDING_MS} ms was answered sooner")
    return {"pending_us": statistics.median(took) * US_PER_S}


async def _blobs(session: Session, size: int, count: int) -> float:
    took, expected = [], blob(size)
    for _ in range(count):
        with _undisturbed():
            began = time.perf_counter()
            answer = await session.call(FOUR[0], "blob", size=size)
        answer.check(expected)
        took.append((answer.at - began) * MS_PER_S)
    return statistics.median(took)


Part = Callable[[Subject, Path, Effort], Awaitable[dict[str, float]]]
PARTS: tuple[Part, ...] = (start, listing, calls)
