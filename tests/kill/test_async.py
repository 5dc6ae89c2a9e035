"""What a gateway acknowledged, or answered, is there after it was killed, whenever that was.

``PML_KILLS`` says how often on each store; 200 for a release.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable

import pytest
from async_killing import series

from pml_testing.postgres import HOW, programs

pytestmark = pytest.mark.anyio
KILLS = int(os.environ.get("PML_KILLS", "20"))


@pytest.fixture
def seed(record_property: Callable[[str, object], None]) -> int:
    """Told when the test fails, and in its report."""
    given = int(os.environ.get("PML_KILL_SEED") or random.SystemRandom().randint(0, 10**6))
    record_property("PML_KILL_SEED", given)
    sys.stdout.write(f"PML_KILL_SEED={given}\n")
    return given


@pytest.mark.parametrize(
    "store",
    [
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.skipif(programs() is None, reason=HOW)),
    ],
)
async def test_nothing_that_was_acknowledged_is_lost_or_run_twice(store: str, seed: int) -> None:
    told: list[str] = []
    tally = await series(KILLS, store=store, seed=seed, tell=told.append)
    assert tally.wrong == [], told
    assert tally.kills == KILLS
    assert tally.under_way > KILLS, f"most kills hit nothing: {tally.told()}"
    assert tally.lost_with_reason <= tally.under_way
    assert tally.answered > KILLS
