"""How long the console's pages take with a long history.

    .venv/bin/python tests/bench/console_pages.py [--rows 200000] [--days 30]

The history is that of ``store.py`` on SQLite; every third execution is a plan of two tools. Each page is asked for by
somebody who may see everything: the first time, and the median of five times after that. The status is 1 when one takes
longer than its goal.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from store_questions import EVERYONE, TOOLS, record

from pml_hookspecs import ExecutionQuery, replace
from pml_store_sqlite import SqliteStore
from pml_testing.dispatching import InOrder

sys.path.insert(0, str(Path(__file__).parent.parent / "integration"))
from console_browser import Browser, served

GOALS_MS = {
    "/": 300,
    "/history": 300,
    "/history?tool=server1:*": 300,
    "/history?person=user3&hours=168": 300,
    "/history?view=causes&hours=168": 1000,
    "/report?hours=168": 1000,
    "/insight": 1000,
    "/insight?days=30": 1000,
}
BLOCK = 5000


async def fill(store: Any, rows: int, days: float) -> None:
    """``rows`` in the last ``days``, oldest first."""
    now = datetime.now(UTC)
    for n in range(rows):
        made = record(n, now - timedelta(days=days) * (1 - n / rows))
        if n % 3 == 0:
            called = tuple(TOOLS[(n * 7 + k * (1 + n % 5)) % len(TOOLS)] for k in (0, 1))
            made = replace(made, kind="workflow", target="", tool_calls=called)
        store.executions.record(made)
        if n % BLOCK == 0:
            await store.executions.find(ExecutionQuery(scope=EVERYONE, limit=1))


async def main(rows: int, days: float) -> int:
    """Measure; 1 where a goal is missed."""
    missed = False
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PML_HOME"] = folder
        async with served(plugins={("executor", "in_order"): InOrder, ("store", "sqlite"): SqliteStore}) as made:
            await fill(made.gateway.assembly.services("console").store, rows, days)
            browser = Browser(made)
            await browser.log_in("k-boss")
            print(f"{'page':40}{'first':>10}{'median':>10}  goal [ms]")
            for path, goal_ms in GOALS_MS.items():
                first, *others = [await timed_ms(browser, path) for _ in range(6)]
                good = max(first, sorted(others)[2]) < goal_ms
                missed |= not good
                print(
                    f"{path:40}{first:10.0f}{sorted(others)[2]:10.0f}  {goal_ms}{'' if good else '  MISSED'}",
                    flush=True,
                )
    return int(missed)


async def timed_ms(browser: Browser, path: str) -> float:
    """How long a page takes [ms]."""
    begun = time.perf_counter()
    await browser.page(path)
    return (time.perf_counter() - begun) * 1000


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--days", type=float, default=30)
    arguments = parser.parse_args()
    sys.exit(asyncio.run(main(arguments.rows, arguments.days)))
