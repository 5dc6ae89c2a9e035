"""Polls for runs that another gateway has left, cheaply while there are none."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Check
from pml_kit.processes import machine

from .liveness import LivenessMonitor, Worker

if TYPE_CHECKING:
    from .executor import Dbos
    from .settings import Settings

TITLE = "durable workflows"
CONNECT_S = 5
_OPEN = "SELECT state, worker FROM pml_run WHERE state IN ('running', 'ready')"


async def watch(dbos: Dbos, log: Any) -> None:
    """Until the executor is closed: take up runs that nobody has. Brings DBOS up only when there are some."""
    problem, lookout = "", WorkPoller(dbos.settings)
    while not dbos.closed:
        try:
            if dbos.is_up or await asyncio.to_thread(lookout.is_work_left):
                await dbos.engine.start()
                await dbos.engine.tick()
            problem = ""
        except Exception as exc:
            # Whatever the database has today, the gateway serves on, and the next look may do.
            if problem != (problem := str(exc) or repr(exc)):
                log.warning("durable runs cannot be looked after", problem=problem)
        await asyncio.sleep(dbos.settings.heartbeat_s)


class WorkPoller:
    """Polls a SQLite database for such runs without importing DBOS."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._watch = LivenessMonitor(settings.lease, Worker(f"{settings.worker}/", 0, machine(), 0, ""))

    def is_work_left(self) -> bool:
        """Whether there is a run that nobody has, or whose worker is dead.

        Always on PostgreSQL, whose queue all gateways share. A worker that is silent is seen to be dead when this was
        called for a whole lease.
        """
        file = self._settings.file
        if file is None:
            return True
        if not file.exists():
            return False
        try:
            with closing(_opened(file)) as connection:
                runs = connection.execute(_OPEN).fetchall()
                known = connection.execute("SELECT id, beat, machine, pid, born FROM pml_worker").fetchall()
        except sqlite3.OperationalError as exc:
            if "no such table" in str(exc):
                return False
            raise
        workers = {row[0]: Worker(*row) for row in known}
        dead = self._watch.dead(workers)
        return any(state == "ready" or worker not in workers or worker in dead for state, worker in runs)


def _opened(file: Path) -> sqlite3.Connection:
    # Not read-only: the first to open a file after a crash mends its log.
    return sqlite3.connect(f"{file.as_uri()}?mode=rw", uri=True, timeout=CONNECT_S)


def check(settings: Settings) -> Check:
    """A line of ``pml plugins doctor``."""
    try:
        states = _sqlite_states(settings.file) if settings.file is not None else _postgres_states(settings.url)
    except Exception as exc:
        where = settings.file or settings.url.rpartition("@")[2]
        remedy = "Set [plugins.dbos] database to a file that can be written, or to a PostgreSQL server that is up."
        return Check(TITLE, False, f"{where}: {exc}", remedy)
    waiting = states["paused"]
    told = ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "none yet"
    remedy = "See pml runs list --state paused." if waiting else ""
    return Check(TITLE, not waiting, told, remedy)


def _sqlite_states(file: Path) -> Counter[str]:
    if not file.exists():
        return Counter()
    with closing(_opened(file)) as connection:
        has = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'pml_run'").fetchone()
        rows = connection.execute("SELECT state, count(*) FROM pml_run GROUP BY state").fetchall() if has else []
    return Counter(dict(rows))


def _postgres_states(url: str) -> Counter[str]:
    import psycopg

    with psycopg.connect(url, connect_timeout=CONNECT_S) as connection:
        has = connection.execute("SELECT to_regclass('pml_run')").fetchone()
        if has is None or has[0] is None:
            return Counter()
        rows = connection.execute("SELECT state, count(*) FROM pml_run GROUP BY state").fetchall()
    return Counter({str(state): int(count) for state, count in rows})
