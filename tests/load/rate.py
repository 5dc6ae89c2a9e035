"""Calls at a fixed rate of arrival, whatever becomes of those before them.

The time of a call counts from when it was due. So a gateway that stands still for a second is seen by all calls that
were due in that second, and not by the one that waited (coordinated omission).
"""

from __future__ import annotations

import asyncio
import random
import resource
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from client import Answer, BenchError, Connection
from clients import McpClient, SessionClient, connect, crowd, leave, problem
from connections import Response
from stage import SERVER_COMMAND, Stage, Store, stage
from usage import Memory, raise_limit, rest, times, used_s

LONGEST_WAIT_S = 60.0
"""For answers after the last call was due [s]."""
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
SPARE_FILES = 500


@dataclass
class Plan:
    """What is asked for."""

    clients: int = 1000
    session_share: float = 0.5
    """Part of the clients that speak the revisions with a handshake."""
    rate: float = 200.0
    """Calls for each gateway [1/s]."""
    duration_s: float = 60.0
    gateways: int = 1
    store: Store = "sqlite"
    direct_rate: float = 50.0
    """Calls that go to a server directly meanwhile [1/s]."""


@dataclass
class Tally:
    """What became of calls."""

    due: int = 0
    times_s: list[float] = field(default_factory=list)
    """Of the good ones, from when each was due."""
    late_s: list[float] = field(default_factory=list)
    """By how much calls were sent after they were due."""
    errors: Counter[str] = field(default_factory=Counter)

    @property
    def open(self) -> int:
        """Calls without an answer."""
        return self.due - len(self.times_s) - self.errors.total()

    def took(self, due: float, at: float, wrong: str) -> None:
        """One was answered."""
        if wrong:
            self.errors[wrong] += 1
        else:
            self.times_s.append(at - due)


def quantiles_ms(times_s: Sequence[float]) -> dict[str, float]:
    """Some quantiles [ms]; empty without times."""
    ordered = sorted(times_s)
    last = len(ordered) - 1
    return {name: ordered[round(share * last)] * 1000 for name, share in SHARES.items()} if ordered else {}


async def pace(rate: float, duration_s: float, tally: Tally, send: Callable[[int, float], None]) -> None:
    """Send calls when they are due, and wait until all are answered."""
    start = time.perf_counter()
    for number in range(round(rate * duration_s)):
        due = start + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tally.due += 1
        tally.late_s.append(time.perf_counter() - due)
        send(number, due)
    end = time.perf_counter() + LONGEST_WAIT_S
    while tally.open and time.perf_counter() < end:  # noqa: ASYNC110 - answers come by callbacks
        await asyncio.sleep(0.05)


def caller(clients: Sequence[McpClient], tally: Tally, prefix: str) -> Callable[[int, float], None]:
    """Sends each call by the next client, in a random order of all."""
    order = random.Random(1).sample(list(clients), len(clients))

    def send(number: int, due: float) -> None:
        text = f"{prefix} {number}"

        def answered(response: Response) -> None:
            tally.took(due, response.at, problem(response, text))

        order[number % len(order)].call(number, text, answered)

    return send


def direct_caller(connection: Connection, tally: Tally) -> Callable[[int, float], None]:
    """Sends each call to the server itself."""

    def send(number: int, due: float) -> None:
        def answered(answer: Answer | None) -> None:
            try:
                if answer is None:
                    raise connection.gone()
                answer.check(f"direct {number}")
                tally.took(due, answer.at, "")
            except BenchError as error:
                tally.took(due, 0.0, str(error))

        connection.send("tools/call", {"name": "echo", "arguments": {"text": f"direct {number}"}}, answered)

    return send


async def measure(plan: Plan, folder: Path) -> dict[str, Any]:
    """Do what ``plan`` says; what came out, as it is written to JSON.

    Raises:
        LoadError: A client was refused, or this process may not open enough files.
    """
    raise_limit(plan.clients * 2 + SPARE_FILES)
    with stage(folder, plan.gateways, plan.store) as running:
        clients = crowd(running.urls, plan.clients, plan.session_share)
        await connect(clients)
        server = Connection(SERVER_COMMAND, folder, {})
        await server.start()
        try:
            warm = Tally()
            await pace(plan.rate * plan.gateways, 1.0, warm, caller(clients, warm, "warm"))
            return await _measured(plan, running, clients, server)
        finally:
            await leave(clients)
            await server.close()


async def _measured(plan: Plan, running: Stage, clients: list[McpClient], server: Connection) -> dict[str, Any]:
    total = plan.rate * plan.gateways
    calls, direct, memory = Tally(), Tally(), Memory(running.pids)
    await rest(running.pids)
    parts, rows = running.processes(), running.rows()
    before, own_s = times(parts), _own_s()
    async with memory.watched(), asyncio.TaskGroup() as group:
        group.create_task(pace(total, plan.duration_s, calls, caller(clients, calls, "call")))
        group.create_task(pace(plan.direct_rate, plan.duration_s, direct, direct_caller(server, direct)))
    own_s = _own_s() - own_s
    await rest(running.pids)
    used = used_s(before, times(running.processes()))
    lost = sum(client.lost for client in clients if isinstance(client, SessionClient))
    return {
        "plan": asdict(plan),
        "calls": calls.due,
        "errors": dict(calls.errors.most_common(10)),
        "unanswered": calls.open,
        "streams_lost": lost,
        "rows_missing": calls.due - (running.rows() - rows),
        "gateway_ms": quantiles_ms(calls.times_s),
        "direct_ms": quantiles_ms(direct.times_s),
        "added_ms": _added(quantiles_ms(calls.times_s), quantiles_ms(direct.times_s)),
        "sent_late_ms": quantiles_ms(calls.late_s),
        "cpu_us_per_call": {part: spent / calls.due * 1e6 for part, spent in used.items()},
        "cores": {"gateway": used["gateway"] / plan.duration_s, "load": own_s / plan.duration_s},
        "memory_mb": {"first": memory.samples[0][1], "last": memory.samples[-1][1]},
        "memory_slope_kb_per_s": memory.slope_kb_per_s(),
        "complaints": running.said(),
    }


def _added(gateway: Mapping[str, float], direct: Mapping[str, float]) -> dict[str, float]:
    return {name: gateway[name] - direct[name] for name in gateway if name in direct}


def _own_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def failed(found: Mapping[str, Any]) -> bool:
    """Whether a call failed, or history has less or more than was called."""
    return bool(found["errors"] or found["unanswered"] or found["streams_lost"] or found["rows_missing"])
