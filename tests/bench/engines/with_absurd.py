"""Absurd: one task per plan, one step by name per task of it. A claim that has run out is given to the next worker."""

from __future__ import annotations

import sys
from pathlib import Path

import psycopg
from absurd_sdk import Absurd
from plan import TASKS, Log

verb, url, log_path, count, width, took_s = sys.argv[1:7]
log = Log(log_path)
if verb == "submit":
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(Path(sys.argv[7]).read_bytes())
app = Absurd(url)


@app.register_task("plan", default_max_attempts=1000)
def plan(params, context) -> None:
    for task in range(TASKS):
        context.step(f"t{task}", lambda task=task: log.task(params["plan"], task, float(took_s)))


if verb == "submit":
    app.create_queue("default")
    for number in range(int(count)):
        app.spawn("plan", {"plan": f"p{number}"})
else:
    app.start_worker(claim_timeout=3, concurrency=int(width), poll_interval=0.1)
