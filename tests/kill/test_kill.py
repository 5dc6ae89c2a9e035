"""A gateway that is killed again and again loses no task and repeats none that was completed.

``PML_KILLS`` says how often in all, half on each database; 200 each for a release.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable

import pytest
from killing import series

from pml_testing.postgres import HOW, programs

pytestmark = pytest.mark.anyio
KILLS = int(os.environ.get("PML_KILLS", "40"))


@pytest.fixture
def seed(record_property: Callable[[str, object], None]) -> int:
    """Told when the test fails, and in its report."""
    given = int(os.environ.get("PML_KILL_SEED") or random.SystemRandom().randint(0, 10**6))
    record_property("PML_KILL_SEED", given)
    sys.stdout.write(f"PML_KILL_SEED={given}\n")
    return given


@pytest.mark.parametrize(
    "database",
    [
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.skipif(programs() is None, reason=HOW)),
    ],
)
async def test_no_completed_task_is_repeated_and_none_is_lost(database: str, seed: int) -> None:
    told: list[str] = []
    tally = await series(KILLS // 2, database=database, seed=seed, tell=told.append)
    assert tally.wrong == [], told
    assert tally.kills == KILLS // 2
    assert tally.amid > tally.kills // 3, f"most kills did not hit a plan: {tally.told()}"
