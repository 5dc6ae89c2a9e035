"""What a gateway acknowledged, or answered, is there after it was killed, whenever that was.

``PML_KILLS`` says how often on each store; 200 for a release.
"""

from __future__ import annotations

import os

import pytest
from side_by_side import Series, databases, side_by_side

from pml_testing.postgres import HOW

KILLS = int(os.environ.get("PML_KILLS", "20"))


@pytest.fixture(scope="module")
def series() -> dict[str, Series]:
    return side_by_side("async_killing.py", "--store", KILLS)


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_nothing_that_was_acknowledged_is_lost_or_run_twice(store: str, series: dict[str, Series]) -> None:
    if store not in databases():
        pytest.skip(HOW)
    tally, told = series[store].tally, series[store].told
    assert tally.wrong == [], told
    assert tally.kills == KILLS
    assert tally.under_way > KILLS, f"most kills hit nothing: {tally}"
    assert tally.lost_with_reason <= tally.under_way
    assert tally.answered > KILLS
