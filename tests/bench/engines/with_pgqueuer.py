"""PgQueuer: one job per task, which enqueues the next. Jobs whose heartbeat has stopped are given out again."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

import psycopg
from pgqueuer import PgQueuer
from pgqueuer.db import PsycopgDriver
from pgqueuer.queries import Queries
from plan import TASKS, Log

verb, url, log_path, count, width, took_s = sys.argv[1:7]
log = Log(log_path)


async def main() -> None:
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
    queries = Queries(PsycopgDriver(connection))
    if verb == "submit":
        await queries.install()
        names = [f"p{number} 0".encode() for number in range(int(count))]
        await queries.enqueue(["step"] * len(names), names, [0] * len(names))
        return
    queuer = PgQueuer.from_psycopg_connection(connection)

    @queuer.entrypoint("step")
    async def step(job) -> None:
        plan, task = job.payload.decode().split()
        await asyncio.to_thread(log.task, plan, int(task), float(took_s))
        if int(task) + 1 < TASKS:
            await queries.enqueue("step", f"{plan} {int(task) + 1}".encode(), 0)

    await queuer.run(
        batch_size=max(1, int(width) // 2),
        max_concurrent_tasks=max(2, int(width)),
        heartbeat_timeout=timedelta(seconds=3),
        dequeue_timeout=timedelta(seconds=1),
    )


asyncio.run(main())
