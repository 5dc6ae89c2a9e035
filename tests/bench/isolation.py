"""How quickly a gateway answers others while code in it tries to get out.

    python isolation.py [deno] [monty] [cpython]

Each attempt of ``pml_testing.isolation`` is made in the process of a gateway, again and again until there are
:data:`SAMPLES` calls. A client of that gateway calls a tool meanwhile that answers at once. Shown are the median
latency with nothing else going on, that during the attempts, and those attempts during which it was more than twice the
first. Exit status 1 if there are any, or if anything got out. Tells something on a machine that does nothing else.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pml_testing import isolation_javascript, isolation_python
from pml_testing.gateway import Client, ScriptedServer, running
from pml_testing.isolation import Attempt, World, attempt_in, services

SAMPLES = 20
MOST_S = 3.0
"""For all repetitions of one attempt [s]."""
REST_S = 0.1
"""Between two attempts: processes that are kept ready are ready again [s]."""
PAUSE_S = 0.002
"""Between two calls of the client [s]."""
QUIET = 500
"""Calls for the latency with nothing else going on."""
MOST = 2.0


class Caller:
    """Calls all the time and keeps how long that took."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.taken_ms: list[float] = []

    async def call(self) -> None:
        began = time.perf_counter()
        await self._client.call("fs__read", {})
        self.taken_ms.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(PAUSE_S)

    async def always(self) -> None:
        while True:
            await self.call()

    @asynccontextmanager
    async def meanwhile(self) -> AsyncIterator[list[float]]:
        """Calls until the block ends; what those took."""
        self.taken_ms = []
        calling = asyncio.create_task(self.always())
        try:
            yield self.taken_ms
        finally:
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)


def executor(name: str) -> tuple[Any, Sequence[Attempt]]:
    """The executor with small limits, and the attempts in its language."""
    small: dict[str, Any] = {"memory_bytes": 128 << 20, "frame_bytes": 1 << 20, "max_calls": 200}
    if name == "deno":
        from pml_sandbox_deno import Deno, Settings

        return Deno(Settings(**small), services()), isolation_javascript.ATTEMPTS
    if name == "monty":
        import pml_sandbox_monty as monty

        return monty.Monty(monty.Settings(**small), services()), isolation_python.ATTEMPTS
    import pml_sandbox_cpython as cpython

    return cpython.CPython(cpython.Settings(**small), services()), isolation_python.ATTEMPTS


async def quiet_ms(caller: Caller) -> float:
    caller.taken_ms = []
    for _ in range(QUIET):
        await caller.call()
    return statistics.median(caller.taken_ms)


async def measure(name: str, caller: Caller, world: World) -> bool:
    """Whether all went well."""
    made, attempts = executor(name)
    ratios: dict[str, float] = {}
    escaped = []
    async with made:
        await attempt_in(made, attempts[0], world)
        quiet = await quiet_ms(caller)
        for attempt in attempts:
            taken: list[float] = []
            end = time.monotonic() + MOST_S
            while len(taken) < SAMPLES and time.monotonic() < end:
                await asyncio.sleep(REST_S)
                async with caller.meanwhile() as more:
                    _, found, _ = await attempt_in(made, attempt, world)
                taken += more
                escaped += [f"{attempt.id}: {what}" for what in found]
            ratios[attempt.id] = statistics.median(taken) / quiet
    slow = {id_: ratio for id_, ratio in ratios.items() if ratio > MOST}
    middle, worst = statistics.median(ratios.values()), max(ratios.values())
    print(f"{name:<8} {len(attempts)} attempts, {len(escaped)} got out; alone {quiet:.2f} ms, "
          f"during them x{middle:.2f} in the middle, x{worst:.2f} at worst")  # fmt: skip
    for line in [*escaped, *(f"  x{ratio:.2f} {id_}" for id_, ratio in slow.items())]:
        print(line)
    return not escaped and not slow


async def main(names: Sequence[str]) -> int:
    with World() as world:
        async with running({"fs": ScriptedServer(["read"])}) as gateway:
            caller = Caller(Client(gateway))
            return 0 if all([await measure(name, caller, world) for name in names]) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:] or ["deno", "monty", "cpython"])))
