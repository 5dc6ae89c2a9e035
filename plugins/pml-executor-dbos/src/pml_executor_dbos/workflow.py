"""Everything that touches DBOS. Importing it takes a second or two, so nobody does before there is work."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import sqlalchemy
from dbos import DBOS, DBOSClient, DBOSConfig, DBOSPortableJSONSerializer, SetWorkflowID, error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .settings import Settings

PLAN_FORMAT = "pml-plan-2"
"""DBOS hands a run only to workers of the same version: this changes when a run of an older one cannot be gone on
with, and not with every release."""
WORKFLOW = "pml.plan"
LOST = (error.DBOSWorkflowConflictIDError, error.DBOSWorkflowCancelledError, error.DBOSStepNondeterminismError)
SUBSECONDS_SINCE = (3, 42)
CONNECTIONS = 10
BUSY_MS = 30_000
LISTENER_TURN_S = 0.25
"""A thread of DBOS's that we have no use for sees only so often that it is to stop [s]."""

perform: Callable[[str, str, StepWriter], str] | None = None
"""Runs the run of this id and request in the gateway of this process, and blocks; set while there is one."""
_engines: list[sqlalchemy.Engine] = []
"""Engines that were given to DBOS, which does not dispose of them."""


class WorkflowInterrupt(BaseException):
    """The run is not at its end. No ``Exception``, for DBOS would take one for the end."""


class LostRunError(Exception):
    """The run is another gateway's by now, or was cancelled."""


# Not a coroutine: DBOS would make its thread pool that of the gateway's event loop, and shut it down in the end.
@DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)
def durable_run(request: str) -> str:
    """One run, from wherever it stands to its end or to where it waits; its outcome as JSON."""
    if perform is None or DBOS.workflow_id is None:
        raise WorkflowInterrupt
    return perform(DBOS.workflow_id, request, StepWriter())


class StepWriter:
    """Writes steps of the workflow that makes it, from any thread but those of event loops."""

    def __init__(self) -> None:
        self._context, self._lock = copy_context(), threading.Lock()

    def skip(self, steps: int) -> None:
        """Go on behind as many steps, which an earlier pass has written."""
        for _ in range(steps):
            self._context.copy().run(DBOS.reserve_step)

    def write(self, row: dict[str, Any]) -> None:
        """Keep ``row`` as the next step.

        Raises:
            LostRunError: The run is not ours any more.
        """
        try:
            self._context.copy().run(self._written, row)
        except LOST as exc:
            raise LostRunError(str(exc)) from exc

    def _written(self, row: dict[str, Any]) -> None:
        with self._lock:
            step = DBOS.reserve_step()
        step.run({"name": f"{row['state']} {row['path']}"}, lambda: row)


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
        config["system_database_engine"] = _sqlite_engine(settings.url)
    DBOS(config=config)
    DBOS.launch()


def client(settings: Settings) -> tuple[DBOSClient, Callable[[], None]]:
    """To look at runs and steer them, without running any; and what closes it."""
    serializer = DBOSPortableJSONSerializer()
    if settings.file is None:
        made = DBOSClient(system_database_url=settings.url, serializer=serializer, retry_connection_errors=False)
        return made, made.destroy
    engine = _sqlite_engine(settings.url)
    made = DBOSClient(system_database_engine=engine, serializer=serializer)

    def close() -> None:
        made.destroy()
        if engine in _engines:
            _engines.remove(engine)
        engine.dispose()

    return made, close


def _sqlite_engine(url: str) -> sqlalchemy.Engine:
    engine = sqlalchemy.create_engine(url, pool_size=CONNECTIONS)
    _engines.append(engine)

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


def start(run: str, request: str) -> None:
    """Begin a run in this process. Blocks until DBOS has it."""
    with SetWorkflowID(run):
        DBOS.start_workflow(durable_run, request)


def recover(executors: Iterable[str]) -> None:
    """Put the runs of executors that are gone back on the queue. Blocks."""
    DBOS._recover_pending_workflows(list(executors))  # noqa: SLF001 - what Conductor would call; there is no other way
