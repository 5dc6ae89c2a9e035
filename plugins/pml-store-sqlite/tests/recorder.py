"""Records as fast as it is told until it is killed: ``recorder.py FILE FIRST_ID ROWS_PER_S [moving] [reading]``.

With ``moving`` the log is moved into the file all the time, and begins anew every few pages.
"""

from __future__ import annotations

import asyncio
import sys

from pml_store_sqlite import Settings, SqliteStore, checkpoints, database
from pml_testing.store_kills import record_until_killed


async def main(path, first, per_s, *how):
    if "moving" in how:
        database.WAL_LONG_BYTES, checkpoints.LONG_PAGES, checkpoints.BETWEEN_S = 0, 64, 0.05
    async with SqliteStore(Settings(path=path)) as store:
        await record_until_killed(store, int(first), int(per_s), reading="reading" in how)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
