"""Procrastinate: one job per task, which defers the next. Jobs of dead workers are looked for, and tried again."""

from __future__ import annotations

import asyncio
import sys

from plan import TASKS, Log
from procrastinate import App, PsycopgConnector

verb, url, log_path, count, width, took_s = sys.argv[1:7]
log = Log(log_path)
app = App(connector=PsycopgConnector(conninfo=url))


@app.task(name="step")
async def step(plan: str, task: int) -> None:
    await asyncio.to_thread(log.task, plan, task, float(took_s))
    if task + 1 < TASKS:
        await step.defer_async(plan=plan, task=task + 1)


async def rescue() -> None:
    while True:
        for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=3):
            await app.job_manager.retry_job(job)
        await asyncio.sleep(1)


async def main() -> None:
    async with app.open_async():
        if verb == "submit":
            await app.schema_manager.apply_schema_async()
            for number in range(int(count)):
                await step.defer_async(plan=f"p{number}", task=0)
            return
        rescuing = asyncio.create_task(rescue())
        await app.run_worker_async(concurrency=int(width), update_heartbeat_interval=1, stalled_worker_timeout=3)
        rescuing.cancel()


asyncio.run(main())
