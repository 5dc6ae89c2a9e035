"""How long a search takes for a word that only others say, against a word that nobody says.

``python tests/bench/search_scope.py [--executions 100000] [--driver sqlite|postgres] [--url URL]``: where
nothing is told by how long it takes, the ratio is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from store_questions import RARE, record

from pml_hookspecs import ExecutionQuery, Scope, replace

ROUNDS, HERS = 60, 2000
OTHERS, NOBODYS = ("report", "srv", "number1"), ("xqqort", "xqv", "xqumber1")
"""Said by every execution of others, and by none; of the same lengths."""


async def ask(store: Any, text: str) -> float:
    """Milliseconds of one search by somebody who says neither."""
    began = time.perf_counter()
    page = await store.executions.find(ExecutionQuery(scope=Scope(principals=frozenset({"mallory"})), text=text))
    assert page.total == 0
    return (time.perf_counter() - began) * 1000


async def measure(store: Any, executions: int) -> None:
    """Fill the store, and ask in turns."""
    now, began = datetime.now(UTC), time.perf_counter()
    for n in range(executions):
        store.executions.record(record(n, now - timedelta(seconds=(executions - n) * 5)))
        if n % 5000 == 0:
            await store.executions.put(record(n, now - timedelta(seconds=(executions - n) * 5)))
    for n in range(executions, executions + HERS):
        at = now - timedelta(seconds=(n - executions) * executions * 5 // HERS)
        its = replace(record(n, at), principal="mallory", as_agent=False, target="garden:water", parent=None)
        store.executions.record(replace(its, request={"plant": "tomatoes"}, response="wet", failure=None))
    sys.stdout.write(f"written in {time.perf_counter() - began:.1f} s\n")
    seen = Scope(principals=frozenset({RARE}))
    await store.executions.find(ExecutionQuery(scope=seen, text="report"))
    for others, nobodys in zip(OTHERS, NOBODYS, strict=True):
        took: dict[str, list[float]] = {others: [], nobodys: []}
        for n in range(2 * ROUNDS):
            # Each is the first of a pair as often as the other.
            for text in (others, nobodys) if n % 2 else (nobodys, others):
                took[text].append(await ask(store, text))
        one, other = (statistics.median(times) for times in took.values())
        sys.stdout.write(f"{others}: {one:.2f} ms, a word of nobody's {other:.2f} ms, ratio {one / other:.2f}\n")


async def main() -> None:
    """Measure one driver."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--executions", type=int, default=100_000)
    parser.add_argument("--driver", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--url", default="", help="of a PostgreSQL database that may be written to")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.driver == "sqlite":
            from pml_store_sqlite import Settings, SqliteStore

            made: Any = SqliteStore(Settings(path=f"{folder}/pml.db"))
        else:
            from pml_store_postgres import PostgresStore
            from pml_store_postgres import Settings as Postgres

            made = PostgresStore(Postgres(url=given.url))
        async with made as store:
            await measure(store, given.executions)


if __name__ == "__main__":
    asyncio.run(main())
