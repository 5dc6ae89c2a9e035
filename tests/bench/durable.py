"""What keeping a plan costs: the same plan with and without ``durable``, in one gateway, turn about.

``python tests/bench/durable.py`` prints what one task takes more when it is kept, on SQLite. The tasks come one after
the other, each with a reference to the one before, so that nothing hides behind anything else.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from pml_executor_dag import Dag, tool
from pml_executor_dbos import Dbos
from pml_executor_dbos import hooks as durable
from pml_testing.gateway import Client, ScriptedServer, running

TASKS = 20
MOST_MS = 2.0
"""Of processor time; the steps of DBOS miss it: docs/design/0031."""


def plan(*, keep: bool) -> dict[str, object]:
    """A chain of calls."""
    tasks = [
        {"id": f"t{i}", "tool": "fs:read", "arguments": {"n": f"{{{{t{i - 1}.n}}}}" if i else 1}} for i in range(TASKS)
    ]
    return {"workflow": {"tasks": tasks, "durable": keep}}


async def timed(client: Client, *, keep: bool) -> float:
    """Of one plan, per task [ms of processor time]: others at work on the machine do not count."""
    start = time.process_time()
    told = await client.call("execute_workflow", plan(keep=keep))
    took_ms = (time.process_time() - start) * 1000
    if told.get("isError"):
        raise SystemExit(f"the plan failed: {str(told)[:500]}")
    return took_ms / TASKS


async def main(times: int) -> int:
    """Print the table; 1 when keeping a task costs more than :data:`MOST_MS` [ms]."""
    from pml_store_sqlite import SqliteStore

    plugins = {
        ("executor", "dag"): Dag,
        ("executor", "dbos"): Dbos,
        ("hooks", "workflow_tool"): tool,
        ("hooks", "dbos"): durable,
        ("store", "sqlite"): SqliteStore,
    }
    with tempfile.TemporaryDirectory() as folder:
        tables = {
            "dbos": {"database": str(Path(folder, "durable.db"))},
            "sqlite": {"path": str(Path(folder, "history.db"))},
        }
        server = ScriptedServer(["read"])
        async with running({"fs": server}, plugins=plugins, tables=tables) as gateway:
            client = Client(gateway)
            await client.initialize()
            plain, kept = [], []
            for _ in range(times + 3):
                plain.append(await timed(client, keep=False))
                kept.append(await timed(client, keep=True))
    plain, kept = plain[3:], kept[3:]
    print(f"{times} plans of {TASKS} tasks, one after the other [ms of processor time per task]")
    for name, taken in (("in process", plain), ("durable, SQLite", kept)):
        print(f"{name:<18} median {statistics.median(taken):6.2f}   least {min(taken):6.2f}   most {max(taken):6.2f}")
    costs_ms = statistics.median(kept) - statistics.median(plain)
    print(f"{'keeping costs':<18} median {costs_ms:6.2f}, at most {MOST_MS:g}")
    return 0 if costs_ms <= MOST_MS else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=30)
    sys.exit(asyncio.run(main(parser.parse_args().times)))
