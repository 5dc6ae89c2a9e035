"""What scheduling costs: workflows of tasks that take a known time, against the shortest time there is.

``python tests/bench/workflows.py`` prints a table. Tasks sleep instead of being called, so everything over the ideal is
the executor's own and the event loop's; the calls' own cost is what ``gateway.py`` measures. The processor time says
more than the wall on a machine that does other things as well.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import statistics
import time

from pml_executor_dag import Dag, Settings
from pml_hookspecs import Retry, Status, Step, ToolCall, Workflow
from pml_testing.fakes import FakeRun, outcome

TASK_S = 0.05
PARALLEL = 100
TASKS = 1000
STEP = Step(when="`true`", retry=Retry(attempts=3))


def independent(step):
    """Tasks that do not need one another; and the ideal time [s]."""
    tasks = tuple(ToolCall(id=f"t{i}", tool="s:t", step=step) for i in range(TASKS))
    return Workflow(id="w", tasks=tasks, max_parallel=PARALLEL), math.ceil(TASKS / PARALLEL) * TASK_S


def items(_step):
    """One task with as many items."""
    each = Step(for_each=list(range(TASKS)), max_items=TASKS)
    task = ToolCall(id="t", tool="s:t", arguments={"n": "{{item}}"}, step=each)
    return Workflow(id="w", tasks=(task,), max_parallel=PARALLEL), math.ceil(TASKS / PARALLEL) * TASK_S


def chains(step):
    """Rows of ten, each task with a reference to the result before it: a critical path of ten."""
    tasks = []
    for row in range(PARALLEL):
        for at in range(10):
            arguments = {"x": f"{{{{t{row}-{at - 1}.n}}}}"} if at else {}
            tasks.append(ToolCall(id=f"t{row}-{at}", tool="s:t", arguments=arguments, step=step))
    return Workflow(id="w", tasks=tuple(tasks), max_parallel=PARALLEL), 10 * TASK_S


def layers(step):
    """Ten layers of a hundred tasks, of which each needs ten of the layer before."""
    tasks = []
    for layer in range(10):
        for at in range(PARALLEL):
            depends_on = tuple(f"t{layer - 1}-{(at + k) % PARALLEL}" for k in range(10)) if layer else ()
            tasks.append(ToolCall(id=f"t{layer}-{at}", tool="s:t", depends_on=depends_on, step=step))
    return Workflow(id="w", tasks=tuple(tasks), max_parallel=PARALLEL), 10 * TASK_S


async def sleeping(task, _run):
    await asyncio.sleep(TASK_S)
    return outcome(task.id, {"content": [], "structuredContent": {"n": 1}})


async def bare():
    """The same sleeps without a scheduler [s]."""
    free = asyncio.Semaphore(PARALLEL)

    async def one():
        async with free:
            await asyncio.sleep(TASK_S)

    started = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(TASKS)))
    return time.perf_counter() - started


async def measure(shape, step, times):
    """Median wall time, the ideal, and the least processor time [s]."""
    workflow, ideal_s = shape(step)
    took, used = [], []
    for _ in range(times):
        started, used_before = time.perf_counter(), time.process_time()
        ended = await Dag(Settings(max_parallel=1000)).execute(workflow, FakeRun(sleeping))
        took.append(time.perf_counter() - started)
        used.append(time.process_time() - used_before)
        if ended.status is not Status.OK:
            raise SystemExit(f"{shape.__name__}: {ended.failure}")
    return statistics.median(took), ideal_s, min(used)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="runs of each, of which the median counts")
    times = parser.parse_args().times
    print(f"{TASKS} tasks of {TASK_S * 1000:.0f} ms, {PARALLEL} at once")
    print(f"{'':28} {'wall [ms]':>10} {'ideal [ms]':>10} {'ratio':>6} {'CPU per task [µs]':>18}")
    for shape in (independent, items, chains, layers):
        for name, step in (("", Step()), (" (when, retry)", STEP)):
            if shape is items and name:
                continue
            wall_s, ideal_s, used_s = asyncio.run(measure(shape, step, times))
            own_us = used_s / TASKS * 1e6
            label = shape.__name__ + name
            print(f"{label:28} {wall_s * 1e3:10.1f} {ideal_s * 1e3:10.1f} {wall_s / ideal_s:6.3f} {own_us:18.1f}")
    used_before = time.process_time()
    wall_s = asyncio.run(bare())
    own_us = (time.process_time() - used_before) / TASKS * 1e6
    ratio = wall_s / (TASKS / PARALLEL * TASK_S)
    print(f"{'sleeps alone':28} {wall_s * 1e3:10.1f} {'':10} {ratio:6.3f} {own_us:18.1f}")


if __name__ == "__main__":
    main()
