"""How quickly a gateway answers others while code in it tries to get out.

    python isolation.py [--serve] [deno] [monty] [cpython] [--only PART]

Each attempt of ``pml_testing.isolation`` is made again and again, and a client calls a tool meanwhile. Just before each
round of that the same client calls it with nothing else going on, so that both see the same machine. Shown are the
ratios of the two medians, and of the two 95th percentiles, over all attempts, and which attempts are above twice.

Without ``--serve`` the attempts are made, and the tool is answered, in the process of the gateway, which the client is
in as well; only calls that begin while an attempt is under way count, and what the attempts' own world needs to be set
up and looked at happens at other times. A call without a wire is so short that this is the strictest way to look at it.
With ``--serve`` it is a ``pml serve``, a server behind it, one client that calls, and another that sends the attempts
with ``run_code``, each in a process of its own.

Exit status 1 if a median is above twice, or if anything got out. Tells something on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

from isolation_measured import Measured, Round, percentile
from isolation_serve import measure_serving

from pml_testing import isolation_javascript, isolation_python
from pml_testing.gateway import Client, ScriptedServer, running
from pml_testing.isolation import Attempt, WatchedRun, World, judged, services, task_of

NAMES = ("deno", "monty", "cpython")
SAMPLES = 25
A_ROUND = 5
"""Calls of which the median is taken together."""
MOST_S = 2.0
"""For all repetitions of one attempt [s]."""
REST_S = 0.06
"""Before each repetition: processes that are kept ready are ready again [s]."""
PAUSE_S = 0.002
"""Between two calls of the client, at most [s]."""
ALONE = 4
"""Calls before each repetition."""
SMALL: dict[str, Any] = {"memory_bytes": 128 << 20, "frame_bytes": 1 << 20, "max_calls": 200}
MOST = 2.0


class Caller:
    """Calls, and keeps when each call began and how long it took."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.made: list[tuple[float, float]] = []

    async def call(self) -> float:
        """How long it took [ms]."""
        began = time.perf_counter()
        await self._client.call("fs__read", {})
        took_ms = (time.perf_counter() - began) * 1000
        self.made.append((began, took_ms))
        return took_ms

    async def always(self) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(random.uniform(0, PAUSE_S))
            await self.call()


async def once(made: Any, attempt: Attempt, world: World, caller: Caller, measured: Measured) -> None:
    """Make the attempt, and keep what calls took before and during it."""
    if not measured.rounds or len(measured.rounds[-1].during) >= A_ROUND:
        measured.rounds.append(Round())
    calls = measured.rounds[-1]
    await asyncio.sleep(REST_S)
    world.reset()
    run, task = WatchedRun(), task_of(attempt, world)
    await caller.call()
    for _ in range(ALONE):
        await asyncio.sleep(random.uniform(0, PAUSE_S))
        calls.alone.append(await caller.call())
    caller.made.clear()
    calling = asyncio.create_task(caller.always())
    await asyncio.sleep(random.uniform(0, PAUSE_S))
    began = time.perf_counter()
    ended = await made.execute(task, run)
    end = time.perf_counter()
    # The last call began while the attempt was under way, and may still be.
    await asyncio.sleep(PAUSE_S)
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    measured.attempts += 1
    calls.during += [took_ms for at, took_ms in caller.made if began <= at <= end]
    measured.escaped += [f"{attempt.id}: {what}" for what in judged(attempt, ended, run.trespasses, world)]


def executor(name: str) -> tuple[Any, Sequence[Attempt]]:
    """The executor with small limits, and the attempts in its language."""
    if name == "deno":
        from pml_sandbox_deno import Deno, Settings

        return Deno(Settings(**SMALL), services()), isolation_javascript.ATTEMPTS
    if name == "monty":
        import pml_sandbox_monty as monty

        return monty.Monty(monty.Settings(**SMALL), services()), isolation_python.ATTEMPTS
    import pml_sandbox_cpython as cpython

    return cpython.CPython(cpython.Settings(**SMALL), services()), isolation_python.ATTEMPTS


async def measure_inside(name: str, only: str) -> dict[str, Measured]:
    """Each attempt, by its id."""
    made, attempts = executor(name)
    found: dict[str, Measured] = {}
    with World() as world:
        async with running({"fs": ScriptedServer(["read"])}) as gateway, made:
            caller = Caller(Client(gateway))
            await once(made, attempts[0], world, caller, Measured())
            for attempt in attempts:
                if only not in attempt.id:
                    continue
                measured = found[attempt.id] = Measured()
                end = time.monotonic() + MOST_S
                while len(measured.during_ms) < SAMPLES and time.monotonic() < end:
                    await once(made, attempt, world, caller, measured)
    return found


def shown(name: str, found: dict[str, Measured]) -> bool:
    """Print it; whether all went well."""
    told = {id_: one for id_, one in found.items() if one.during_ms}
    escaped = [line for one in found.values() for line in one.escaped]
    medians = {id_: one.ratio(50) for id_, one in told.items()}
    slow = {id_: ratio for id_, ratio in medians.items() if ratio > MOST}
    alone = statistics.median(value for one in told.values() for value in one.alone_ms)
    tails = [one.ratio(95) for one in told.values()]
    print(
        f"{name:<8} {len(told)} attempts, {len(escaped)} got out; alone {alone:.2f} ms; during them "
        f"p50 x{statistics.median(medians.values()):.2f} in the middle, x{max(medians.values()):.2f} at worst; "
        f"p95 x{statistics.median(tails):.2f} in the middle, x{max(tails):.2f} at worst"
    )
    for line in escaped:
        print(f"  {line}")
    for id_, one in told.items():
        if max(one.ratio(50), one.ratio(95)) > MOST:
            much = f"{percentile(one.during_ms, 95):.2f} ms, {len(one.during_ms)} calls, {one.attempts} attempts"
            print(f"  p50 x{medians[id_]:.2f}, p95 x{one.ratio(95):.2f} ({much}) {id_}")
    return not escaped and not slow


async def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--serve", action="store_true", help="with a gateway in a process of its own")
    parser.add_argument("--only", default="", metavar="PART", help="attempts with this in their name")
    parser.add_argument("names", nargs="*", choices=[[], *NAMES], metavar="NAME", help=", ".join(NAMES))
    given = parser.parse_args()
    well = True
    for name in given.names or NAMES:
        if given.serve:
            found = await asyncio.to_thread(measure_serving, name, executor(name)[1], given.only, SMALL)
        else:
            found = await measure_inside(name, given.only)
        well &= shown(name, found)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
