"""Records as fast as it is told until it is killed: ``recorder.py URL SCHEMA FIRST_ID ROWS_PER_S [reading]``."""

from __future__ import annotations

import asyncio
import sys
import time

from pml_store_postgres import PostgresStore, Settings, database
from pml_testing.store_kills import record_until_killed

told: list[str] = []
transaction = database.ServerSession.transaction


def transact_and_tell(*work):
    told.append(f"w {time.monotonic()}\n")
    try:
        transaction(*work)
    finally:
        told.append(f"d {time.monotonic()}\n")


async def main(url, schema, first, per_s, *how):
    database.ServerSession.transaction = transact_and_tell
    async with PostgresStore(Settings(url=url, schema=schema)) as store:
        await record_until_killed(store, int(first), int(per_s), reading="reading" in how, told=told)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
