"""What code in Deno costs: a task from the pool and cold, how soon it is gone, and calls of tools from inside.

    python sandbox.py

The calls go through a whole gateway in this process: chain, tracing, recording into SQLite. The connection to the tool
that they reach answers at once, so what is measured is the gateway and not a server.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from pml_hookspecs import CodeRun, Outcome, RawObject, Session, hookimpl, replace
from pml_sandbox_deno import Deno, Settings
from pml_testing.fakes import FakeRun, FakeServices
from pml_testing.gateway import ScriptedLink, ScriptedServer, running
from pml_testing.isolation import children

TASKS = 60
CALLS = 2500
RUNS = 12
"""Of that many calls each: machines that are lent out run at one speed now and at another then."""
LIMIT_S = 0.4
PAUSE_S = 0.15
"""Between two tasks: the pool is full again."""
SEQUENTIAL = "for (let i = 0; i < inputs.n; i++) await tools.fs.read({ i }); return inputs.n"
PARALLEL = """
let next = 0;
const worker = async () => { while (next < inputs.n) await tools.fs.read({ i: next++ }) };
await Promise.all([...Array(64)].map(worker));
return inputs.n"""


def code(source: str, **inputs: Any) -> CodeRun:
    return CodeRun(id="bench", language="typescript", source=source, inputs=inputs)


def shown(name: str, taken_ms: list[float]) -> None:
    taken_ms.sort()
    p95 = taken_ms[int(len(taken_ms) * 0.95)]
    print(f"{name:<34} p50 {statistics.median(taken_ms):7.2f} ms   p95 {p95:7.2f} ms")


async def timed(perform: Callable[[], Awaitable[Outcome]]) -> float:
    began = time.perf_counter()
    ended = await perform()
    took_ms = (time.perf_counter() - began) * 1000
    if ended.failure is not None:
        raise RuntimeError(ended.failure)
    return took_ms


def shown_rates(name: str, rates: list[float]) -> None:
    worst, middle, best = min(rates), statistics.median(rates), max(rates)
    print(f"{name:<48} best {best:7.0f}, median {middle:7.0f}, worst {worst:7.0f} calls/s")


async def tasks() -> None:
    task = code("const n: number = 20; return n + 22")
    async with Deno(Settings(), FakeServices("deno")) as warm:
        await timed(lambda: warm.execute(task, FakeRun()))
        taken = []
        for _ in range(TASKS):
            await asyncio.sleep(PAUSE_S)
            taken.append(await timed(lambda: warm.execute(task, FakeRun())))
        shown("task from the pool, pool full", taken)
        taken = [await timed(lambda: warm.execute(task, FakeRun())) for _ in range(TASKS)]
        shown("task from the pool, back to back", taken)
    async with Deno(Settings(spare=0), FakeServices("deno")) as cold:
        taken = [await timed(lambda: cold.execute(task, FakeRun())) for _ in range(TASKS)]
    shown("task cold", taken)


async def endings() -> None:
    """From the end of its time until code that does not end is gone, process and all."""
    task, late = replace(code("while (true);"), timeout_s=LIMIT_S), []
    for _ in range(TASKS // 3):
        before = children()
        async with Deno(Settings(spare=0), FakeServices("deno")) as deno:
            began = time.perf_counter()
            await deno.execute(task, FakeRun())
            while children() - before:  # noqa: ASYNC110 - processes tell nobody
                await asyncio.sleep(0.001)
            late.append((time.perf_counter() - began - LIMIT_S) * 1000)
    shown("code that does not end, too late by", late)


ANSWER = RawObject(b'{"content":[{"type":"text","text":"1"}],"structuredContent":{"i":1}}')


class AtOnce(ScriptedServer):
    """Calls of its tool cost the gateway and nobody else: nothing is decoded, kept or timed on the other side."""

    def use(self, link: ScriptedLink) -> None:
        super().use(link)
        others = link.request

        async def request(method: str, params: Mapping[str, Any], *, timeout_s: float) -> RawObject:
            return ANSWER if method == "tools/call" else await others(method, params, timeout_s=timeout_s)

        link.request = request  # type: ignore[method-assign]


class Catcher:
    """Gets hold of the services, which run tasks as no client would."""

    services: Any = None

    @hookimpl
    def pml_lifespan(self, services: Any) -> Any:
        Catcher.services = services
        return ()


async def calls() -> None:
    from pml_store_sqlite import SqliteStore  # the store that most people have

    def settings() -> dict[tuple[str, str], Any]:
        return {("executor", "deno"): Deno, ("hooks", "catcher"): Catcher(), ("store", "sqlite"): SqliteStore}

    with tempfile.TemporaryDirectory() as folder:
        tables = {"deno": {"max_calls": 10 * CALLS}, "sqlite": {"path": str(Path(folder, "bench.db"))}}
        async with running({"fs": AtOnce(["read"])}, plugins=settings(), tables=tables) as _gateway:
            session = Session(key="bench")
            for name, source in (("one after the other", SEQUENTIAL), ("64 in parallel", PARALLEL)):
                rates = []
                for _ in range(RUNS):
                    task = code(source, n=CALLS)
                    took_ms = await timed(lambda task=task: Catcher.services.run(task, session))
                    rates.append(CALLS / took_ms * 1000)
                shown_rates(f"calls through the gateway, {name}", rates)
    async with Deno(Settings(max_calls=10 * CALLS), FakeServices("deno")) as alone:
        for name, source in (("one after the other", SEQUENTIAL), ("64 in parallel", PARALLEL)):
            rates = []
            for _ in range(RUNS):
                took_ms = await timed(lambda source=source: alone.execute(code(source, n=CALLS), FakeRun()))
                rates.append(CALLS / took_ms * 1000)
            shown_rates(f"calls, the bridge alone,   {name}", rates)


async def main() -> None:
    await tasks()
    await endings()
    await calls()


if __name__ == "__main__":
    asyncio.run(main())
