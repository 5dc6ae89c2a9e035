"""Killed at any moment, a gateway loses at most what it recorded in the last tenth of a second.

``PML_KILLS`` says how often; 200 for a release.
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

import pytest

from pml_stores.sql.totals import TABLE
from pml_stores.sums import DAY, HOUR
from pml_testing.records import execution
from pml_testing.store_kills import KilledRecorder

KILLS = int(os.environ.get("PML_KILLS", "40"))
ROWS_PER_S = 2000
ENDS_S = 10.0


@pytest.fixture
def missing(emptied, sql):
    """Which of some numbers are not there, once the server has ended what the killed process was at."""

    def not_there(numbers):
        deadline = time.monotonic() + ENDS_S
        others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        while sql(f"{others} AND backend_type = 'client backend'").fetchone()[0]:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        there = {id for (id,) in sql("SELECT id FROM execution")}
        return [n for n in numbers if execution(n).id not in there]

    return not_there


def test_a_gateway_that_is_killed_again_and_again_keeps_what_it_recorded(emptied, missing, sql, record_property):
    seed = int(os.environ.get("PML_KILL_SEED") or random.SystemRandom().randint(0, 10**6))
    record_property("PML_KILL_SEED", seed)
    sys.stdout.write(f"PML_KILL_SEED={seed}\n")
    chance, last, put, old = random.Random(seed), 0, [], []
    recorder = str(Path(__file__).with_name("recorder.py"))
    for kill in range(KILLS):
        reading = bool(kill % 2)
        command = [sys.executable, recorder, emptied.url, emptied.schema, str(last), str(ROWS_PER_S)]
        killed = KilledRecorder([*command, "reading"] if reading else command, last, chance, reading=reading)
        assert killed.put or killed.old or killed.last > last, killed.problem
        assert missing(killed.put) == [], f"put and lost, kill {kill}"
        assert missing(killed.old) == [], f"recorded long before kill {kill}, and lost"
        put, old, last = put + killed.put, old + killed.old, killed.last + 1
    assert missing(put + old) == []
    assert put
    # Or all that was recorded would have been allowed to be lost.
    assert old
    for grain in (HOUR, DAY):
        counted = sql(f"SELECT sum(executions)::int8 FROM {TABLE} WHERE grain = {grain}").fetchone()
        assert counted == sql("SELECT count(*) FROM execution").fetchone()
