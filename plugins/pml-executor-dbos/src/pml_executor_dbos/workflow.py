"""Everything that touches DBOS. Importing it takes a second or two, so nobody does before there is work."""

from __future__ import annotations

import logging
import sqlite3
import time
from typing import TYPE_CHECKING, Any

import sqlalchemy
from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer, SetWorkflowID

if TYPE_CHECKING:
    from collections.abc import Callable

    from .settings import Settings

PLAN_FORMAT = "pml-plan-1"
"""DBOS hands a run only to workers of the same version: this changes when a run of an older one cannot be gone on
with, and not with every release."""
WORKFLOW = "pml.run"
SUBSECONDS_SINCE = (3, 42)
OVER = frozenset({"SUCCESS", "ERROR"})
CONNECTIONS = 10
BUSY_MS = 30_000
LISTENER_TURN_S = 0.25
"""A thread of DBOS's that we have no use for sees only so often that it is to stop [s]."""

perform: Callable[[str], str] | None = None
"""Runs the run of this id in the gateway of this process, and blocks meanwhile; set while there is one."""


_engines: list[sqlalchemy.Engine] = []
"""Engines that were given to DBOS, which does not dispose of them."""


# Not a coroutine: DBOS would make its thread pool that of the gateway's event loop, and shut it down in the end.
@DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)
def durable_run(run: str) -> str:
    """One run, from wherever it stands to its end or to where it waits; how it came out, in a word."""
    if perform is None:
        raise WorkflowInterrupt
    return perform(run)


class WorkflowInterrupt(BaseException):
    """The run is not at its end. No ``Exception``, for DBOS would take one for the end."""


class LogForwarder(logging.Handler):
    """Hands what DBOS logs to the gateway's log, which writes to standard error only."""

    def __init__(self, log: Any) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        level = "error" if record.levelno >= logging.ERROR else "warning"
        problem = repr(record.exc_info[1]) if record.exc_info and record.exc_info[1] is not None else None
        getattr(self._log, level)("dbos", message=record.getMessage(), **({"error": problem} if problem else {}))


def launch(settings: Settings, executor: str, log: Any) -> None:
    """Start DBOS. Blocks; makes its tables if there are none.

    Raises:
        Exception: The database cannot be used.
    """
    logger = logging.getLogger("dbos")
    logger.handlers, logger.propagate = [LogForwarder(log)], False
    config: DBOSConfig = {
        "name": "pml",
        "system_database_url": settings.url,
        "application_version": PLAN_FORMAT,
        "executor_id": executor,
        "log_level": "WARNING",
        "enable_otlp": False,
        "serializer": DBOSPortableJSONSerializer(),
        "notification_listener_polling_interval_sec": LISTENER_TURN_S,
    }
    if settings.file is not None:
        _engines.append(_sqlite_engine(settings.url))
        config["system_database_engine"] = _engines[-1]
    DBOS(config=config)
    DBOS.launch()


def _sqlite_engine(url: str) -> sqlalchemy.Engine:
    engine = sqlalchemy.create_engine(url, pool_size=CONNECTIONS)

    @sqlalchemy.event.listens_for(engine, "connect")
    def connected(connection: Any, _record: Any) -> None:
        connection.isolation_level = "IMMEDIATE"
        if sqlite3.sqlite_version_info < SUBSECONDS_SINCE:
            connection.create_function("unixepoch", -1, _unixepoch)
        # The default journal costs a wait for the disk per step, some 20 ms.
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", f"busy_timeout={BUSY_MS}", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @sqlalchemy.event.listens_for(engine, "checkin")
    def returned(_connection: Any, record: Any) -> None:
        # A run that was under way in the end comes back with its connection later, and nobody else would close it.
        if engine not in _engines:
            record.invalidate()

    return engine


def _unixepoch(*modifiers: Any) -> float:
    """What SQLite has from 3.42 on: seconds with a fraction if 'subsec' is asked for."""
    return time.time() if "subsec" in modifiers else int(time.time())


def shut_down() -> None:
    """Stop DBOS. Blocks for up to a few seconds; runs under way stay pending."""
    DBOS.destroy()
    while _engines:
        _engines.pop().dispose()


def start(run: str) -> None:
    """Begin a run in this process. Of several starts of one run one does. Blocks until DBOS has it."""
    with SetWorkflowID(run):
        DBOS.start_workflow(durable_run, run)


def requeue(run: str) -> bool:
    """Have a worker go on with a run; False if DBOS does not know it (any more). Blocks."""
    status = DBOS.get_workflow_status(run)
    if status is None:
        return False
    if status.status in OVER:
        # It has a result of a pass that came too late, and takes a result for the end.
        DBOS.delete_workflow(run)
        return False
    DBOS.resume_workflow(run)
    return True


def set_aside(run: str) -> None:
    """Have nobody go on with a run until it is requeued. Blocks."""
    DBOS.cancel_workflow(run)


def left_by(worker: str) -> list[str]:
    """Runs that DBOS believes a worker has. Blocks."""
    pending = DBOS.list_workflows(status="PENDING", executor_id=worker, name=WORKFLOW, load_input=False)
    return [status.workflow_id for status in pending]


def forget(runs: list[str]) -> None:
    """Delete what DBOS has of runs. Blocks."""
    DBOS.delete_workflows(runs)
