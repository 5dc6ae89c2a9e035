"""How fast a store answers with a long history, how much recording costs, and whether it keeps up.

    .venv/bin/python tests/bench/store.py [--rows 1000000] [--days 30] [--store sqlite|postgres] [--url URL]

``--store postgres`` without ``--url`` starts a server of its own. Rows are spread over 30 days, over 50 agents, 8
people and 40 tools: each agent works for one person and uses six tools. Two thirds ran inside another one. Every
question is asked first while nothing else happens, then while 500 rows a second are written. ``--file`` keeps the
history for the next run. A history that came in two minutes is vacuumed first on PostgreSQL, which its
server otherwise does by itself every 50,000 rows, at most once a minute; what it does of its own later is left to it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from store_questions import GOALS, PRINCIPALS, Question, questions, record

from pml_hookspecs import ExecutionQuery, Scope
from pml_kit.system.garbage import seldom_collected
from pml_testing.fakes import FakeServices

BLOCK = 20_000
WRITTEN_PER_S = 500
UNDER_WAY_S = 3.0
"""Rows are written for so long before anything is asked [s]: files that get longer make the beginning slower."""
RECORD_US = 25.0


class Table:
    """Prints rows as they come."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def row(self, what: str, *numbers: str, goal: str = "", good: bool = True) -> None:
        if not good:
            self.missed.append(what.strip())
        print(f"{what:52}" + "".join(f"{n:>12}" for n in numbers) + f"  {goal}{'' if good else '  MISSED'}", flush=True)

    def times(self, what: str, quiet: Sequence[float], busy: Sequence[float], goal: float) -> None:
        """How long one question took each time, while nothing and while something was written [ms], each sorted."""
        p50, p95, p50_busy, p95_busy = (at(took, part) for took in (quiet, busy) for part in (0.5, 0.95))
        numbers = [f"{number:.2f}" for number in (p50, p95, p50_busy, p95_busy)]
        self.row(what, *numbers, goal=f"{goal} ms", good=max(p95, p95_busy) < goal)


async def fill(store: Any, rows: int, days: float = 30) -> None:
    """``rows`` in the last ``days``, oldest first, as they would have come."""
    now = datetime.now(UTC)
    there = (await store.executions.find(ExecutionQuery(scope=Scope(principals=None), limit=1))).total
    began = time.perf_counter()
    for n in range(there, rows):
        store.executions.record(record(n, now - timedelta(days=days) * (1 - n / rows)))
        if n % BLOCK == BLOCK - 1:
            await store.executions.find(ExecutionQuery(scope=Scope(principals=frozenset()), limit=1))
            each = (time.perf_counter() - began) / (n + 1 - there) * 1e6
            print(f"\rfilling: {n + 1:,} of {rows:,} rows, {each:.0f} us each ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    health = await store.health()
    assert not health["drops"], health


async def ask(store: Any, asked: Sequence[Question], times: int) -> dict[str, list[float]]:
    """How long each took each time [ms], sorted.

    In turns, so that what slows the machine for a second is not laid on one question.
    """
    took: dict[str, list[float]] = {question.name: [] for question in asked}
    for _ in range(times):
        for question in asked:
            began = time.perf_counter()
            await question.ask(store)
            took[question.name].append((time.perf_counter() - began) * 1000)
            # As others would have their turn.
            await asyncio.sleep(0.001)
    return {name: sorted(each) for name, each in took.items()}


@asynccontextmanager
async def writing(store: Any, first: int, per_s: float) -> AsyncIterator[list[float]]:
    """Rows are recorded at this rate meanwhile. Gives the processor time that each took on the loop [us]."""
    each: list[float] = []

    async def write() -> None:
        began, n = time.perf_counter(), 0
        while True:
            due = int((time.perf_counter() - began) * per_s)
            now = datetime.now(UTC)
            made = [record(first + i, now + timedelta(microseconds=i - due)) for i in range(n, due)]
            used = time.thread_time()
            for one in made:
                store.executions.record(one)
            if made:
                each.append((time.thread_time() - used) / len(made) * 1e6)
            n = due
            await asyncio.sleep(0.005)

    task = asyncio.create_task(write())
    try:
        yield each
    finally:
        task.cancel()
        await asyncio.wait([task])


def pace_ms() -> str:
    """How long the same piece of work takes, at best and at worst; a machine that is lent may be slower at any time."""
    took = []
    for _ in range(8):
        began = time.perf_counter()
        for _ in range(1_000_000):
            pass
        took.append((time.perf_counter() - began) * 1000)
    return f"a fixed piece of work takes {min(took):.0f} to {max(took):.0f} ms"


async def ask_all(store: Any, rows: int, times: int, table: Table) -> None:
    """Every question, while nothing is written and while something is."""
    print(pace_ms())
    table.row("question (times in ms)", "p50", "p95", "p50 busy", "p95 busy", goal="goal p95")
    asked = questions(datetime.now(UTC))
    kinds = [[question for question in asked if question.kind == kind] for kind in GOALS]
    quiet: dict[str, list[float]] = {}
    for some in kinds:
        await ask(store, some, 1)
        quiet |= await ask(store, some, times)
    between = pace_ms()
    async with writing(store, rows, WRITTEN_PER_S):
        await asyncio.sleep(UNDER_WAY_S)
        for some in kinds:
            goal, busy = GOALS[some[0].kind], await ask(store, some, times)
            for name in busy:
                table.times(name, quiet[name], busy[name], goal)
            together = [sorted(took for one in some for took in each[one.name]) for each in (quiet, busy)]
            table.times("    all of these", *together, goal)
    print(f"{between}; at the end {pace_ms().removeprefix('a fixed piece of work takes ')}")


def at(took: list[float], part: float) -> float:
    """The value that ``part`` of them do not exceed."""
    return took[min(len(took) - 1, int(len(took) * part))]


async def cost(store: Any, rows: int, table: Table) -> None:
    """Of one call of ``record`` on the loop's thread."""
    now = datetime.now(UTC)
    taken = []
    for block in range(20):
        made = [record(rows + block * 500 + i, now + timedelta(microseconds=block * 500 + i)) for i in range(500)]
        used, loop_used = time.process_time(), time.thread_time()
        for one in made:
            store.executions.record(one)
        on_loop = time.thread_time() - loop_used
        await store.executions.put(made[-1])
        taken.append((on_loop / 500 * 1e6, (time.process_time() - used) / 500 * 1e6))
    on_loop, in_all = (sorted(column)[len(taken) // 2] for column in zip(*taken, strict=True))
    table.row(
        "record(): processor time on the loop's thread [us]", f"{on_loop:.1f}", goal="25 us", good=on_loop <= RECORD_US
    )
    table.row("    of the whole process, the writer included [us]", f"{in_all:.1f}")


async def keep_up(store: Any, rows: int, per_s: int, seconds: float, table: Table) -> None:
    """Whether so many rows a second are written for so long."""
    everyone = ExecutionQuery(scope=Scope(principals=None), limit=1)
    before = (await store.executions.find(everyone)).total
    started, began, n, deepest, shown = datetime.now(UTC), time.perf_counter(), 0, 0, 0
    while (passed := time.perf_counter() - began) < seconds:
        due = int(passed * per_s)
        for i in range(n, due):
            store.executions.record(record(rows + i, datetime.now(UTC)))
        n = due
        deepest = max(deepest, (await store.health())["queued"])
        if int(passed) > shown:
            shown = int(passed)
            print(f"\rrecording: {shown} of {seconds:.0f} s ", end="", file=sys.stderr, flush=True)
        await asyncio.sleep(0.005)
    print(file=sys.stderr)
    # Unlike a list, it waits until everything is written.
    await store.executions.put(record(rows + n, datetime.now(UTC)))
    n += 1
    written = (await store.executions.find(everyone)).total - before
    late = time.perf_counter() - began - seconds
    health = await store.health()
    good = written == n and not health["drops"] and not health.get("unwritable")
    table.row(f"{per_s:,} rows a second for {seconds:.0f} s: rows lost", f"{n - written}", goal="0", good=good)
    table.row("    rows waiting at most", f"{deepest}")
    table.row("    the last one written after [s]", f"{late:.2f}")
    since = ExecutionQuery(scope=Scope(principals=None), since=started, limit=1)
    assert (await store.executions.find(since)).total == n


def place(asked: argparse.Namespace, stack: ExitStack) -> dict[str, str]:
    """Where the data is: of its own, unless something else was asked for."""
    if asked.store == "sqlite":
        return {"path": asked.file or str(Path(stack.enter_context(tempfile.TemporaryDirectory())) / "pml.db")}
    from pml_testing.postgres import cluster

    return {"url": asked.url or stack.enter_context(cluster(durable=True)).database()}


def open_store(driver: str, where: Mapping[str, str]) -> Any:
    """The store, which deletes nothing."""
    (found,) = entry_points(group="pml.store", name=driver)
    store_type = found.load()
    return store_type(store_type.settings_type(**where, keep_days=0, keep_bytes=0), FakeServices())


def vacuum(url: str) -> None:
    """What the server does by itself while a history comes slower."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE)")


async def run(asked: argparse.Namespace, stack: ExitStack) -> list[str]:
    """Everything; what missed its goal."""
    table = Table()
    where = place(asked, stack)
    async with open_store(asked.store, where) as store:
        await fill(store, asked.rows, asked.days)
        if "url" in where:
            vacuum(where["url"])
        print(f"\n{asked.store}, {asked.rows:,} executions, {len(PRINCIPALS)} principals", flush=True)
        await ask_all(store, asked.rows, asked.times, table)
        await cost(store, asked.rows + 10**8, table)
        await keep_up(store, asked.rows + 2 * 10**8, asked.rate, asked.seconds, table)
        size = (await store.health()).get("size_bytes")
        if isinstance(size, int):
            table.row("bytes on disk for each row", f"{size / (await _all(store)):.0f}")
    return table.missed


async def _all(store: Any) -> int:
    return int((await store.executions.find(ExecutionQuery(scope=Scope(principals=None), limit=1))).total)


def main() -> None:
    """Print a table; exit with 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--days", type=float, default=30, help="the days that the rows are spread over")
    parser.add_argument("--times", type=int, default=100, help="how often each question is asked")
    parser.add_argument("--rate", type=int, default=5000, help="rows a second in the last part")
    parser.add_argument("--seconds", type=float, default=60, help="length of the last part")
    parser.add_argument("--store", default="sqlite")
    parser.add_argument("--url", help="of an empty PostgreSQL database")
    parser.add_argument("--file", help="SQLite file to use, and to fill up to as many rows as asked for")
    with ExitStack() as stack:
        # As in `pml serve`.
        stack.enter_context(seldom_collected())()
        missed = asyncio.run(run(parser.parse_args(), stack))
    print(f"missed: {', '.join(missed)}" if missed else "every goal reached")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
