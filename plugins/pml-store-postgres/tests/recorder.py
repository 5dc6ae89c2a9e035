"""Records as fast as it is told until it is killed: ``recorder.py URL SCHEMA FIRST_ID ROWS_PER_S [reading]``."""

from __future__ import annotations

import asyncio
import sys

from pml_store_postgres import PostgresStore, Settings
from pml_testing.killed import record_until_killed


async def main(url, schema, first, per_s, *how):
    async with PostgresStore(Settings(url=url, schema=schema)) as store:
        await record_until_killed(store, int(first), int(per_s), reading="reading" in how)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
