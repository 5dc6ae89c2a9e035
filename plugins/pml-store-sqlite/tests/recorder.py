"""Records as fast as it is told until it is killed, and says what it did.

``recorder.py FILE FIRST_ID ROWS_PER_S [moving] [reading]``: with ``moving`` the log is moved into the file all the
time, and begins anew every few pages; with ``reading`` lists are asked for all the time, for which a batch stands
still, and nothing is put, for which none does.

Each line is ``r N TIME`` for what was handed over, ``p N TIME`` for what was put and is durable, or ``s SECONDS TIME``
for how late the machine let this process go on. Times are of the clock that all processes share.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

from pml_hookspecs import ExecutionQuery, Scope
from pml_store_sqlite import Settings, SqliteStore, checkpoints, database
from pml_testing.records import execution

TICK_S = 0.005
EVERYTHING = ExecutionQuery(scope=Scope(principals=None))


async def main(path, first, per_s):
    lines, n = [], first
    async with SqliteStore(Settings(path=path)) as store:

        async def put():
            nonlocal n
            while True:
                n += 1
                mine = n
                await store.executions.put(execution(mine, intent="put"))
                os.write(1, f"p {mine} {time.monotonic()}\n".encode())
                await asyncio.sleep(TICK_S)

        async def read():
            while True:
                await store.executions.find(EVERYTHING)

        other = asyncio.create_task(read() if "reading" in sys.argv[4:] else put())
        began, done = time.monotonic(), 0
        while not other.done():
            expected = time.monotonic() + TICK_S
            due = int((time.monotonic() - began) * per_s)
            for _ in range(done, due):
                n += 1
                store.executions.record(execution(n, response={"text": f"number {n}"}))
                lines.append(f"r {n} {time.monotonic()}\n")
            done = due
            os.write(1, "".join(lines).encode())
            lines.clear()
            await asyncio.sleep(TICK_S)
            lines.append(f"s {time.monotonic() - expected} {time.monotonic()}\n")


if __name__ == "__main__":
    if "moving" in sys.argv[4:]:
        database.WAL_LONG_BYTES, checkpoints.LONG_PAGES, checkpoints.BETWEEN_S = 0, 64, 0.05
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
