"""A gateway that is killed again and again loses no task and repeats none that was completed.

``PML_KILLS`` says how often in all, half on each database; 200 each for a release.
"""

from __future__ import annotations

import os

import pytest
from side_by_side import Series, databases, side_by_side

from pml_testing.postgres import HOW

KILLS = int(os.environ.get("PML_KILLS", "40")) // 2


@pytest.fixture(scope="module")
def series() -> dict[str, Series]:
    return side_by_side("killing.py", "--database", KILLS)


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_no_completed_task_is_repeated_and_none_is_lost(database: str, series: dict[str, Series]) -> None:
    if database not in databases():
        pytest.skip(HOW)
    tally, told = series[database].tally, series[database].told
    assert tally.wrong == [], told
    assert tally.kills == KILLS
    assert tally.amid_a_plan > KILLS // 3, f"most kills did not hit a plan: {tally}"
