"""Records as fast as it is told until it is killed: ``recorder.py FILE FIRST_ID ROWS_PER_S [moving] [reading]``.

With ``moving`` the log is moved into the file all the time, and begins anew every few pages.
"""

from __future__ import annotations

import asyncio
import sys
import time

from pml_store_sqlite import Settings, SqliteStore, database
from pml_testing.store_kills import record_until_killed

told: list[str] = []
transaction = database.FileSession.transaction


def transact_and_tell(*work):
    told.append(f"w {time.monotonic()}\n")
    try:
        transaction(*work)
    finally:
        told.append(f"d {time.monotonic()}\n")


async def main(path, first, per_s, *how):
    if "moving" in how:
        database.LOG_PAGES = 8
        # Here every transaction waits for the disk, as it moves the log.
        database.FileSession.transaction = transact_and_tell
    async with SqliteStore(Settings(path=path)) as store:
        await record_until_killed(store, int(first), int(per_s), reading="reading" in how, told=told)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
