"""DBOS: one workflow per plan, one step per task. Runs of executors that are gone are asked for back at the start."""

from __future__ import annotations

import os
import sys
import threading

import sqlalchemy
from dbos import DBOS, SetWorkflowID
from plan import TASKS, Log

verb, url, log_path, count, width, took_s = sys.argv[1:7]
log = Log(log_path)


@DBOS.workflow(name="plan", max_recovery_attempts=None)
def plan(name: str) -> None:
    for task in range(TASKS):
        DBOS.run_step({"name": f"t{task}"}, log.task, name, task, float(took_s))


def engine() -> sqlalchemy.Engine:
    made = sqlalchemy.create_engine(url)

    @sqlalchemy.event.listens_for(made, "connect")
    def connected(connection, _record):
        connection.isolation_level = "IMMEDIATE"
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=30000", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    return made


config = {"name": "bench", "system_database_url": url, "application_version": "1", "executor_id": str(os.getpid())}
if url.startswith("sqlite"):
    config["system_database_engine"] = engine()
DBOS(config={**config, "log_level": "ERROR"})
DBOS.launch()
DBOS.register_queue("plans", worker_concurrency=int(width), polling_interval_sec=0.1)
if verb == "submit":
    for number in range(int(count)):
        with SetWorkflowID(f"p{number}"):
            DBOS.enqueue_workflow("plans", plan, f"p{number}")
    DBOS.destroy()
    sys.exit()
# No gateway lives on: whoever has one pending is gone.
gone = {run.executor_id for run in DBOS.list_workflows(status="PENDING")} - {str(os.getpid())}
DBOS._recover_pending_workflows(sorted(gone))
threading.Event().wait()
