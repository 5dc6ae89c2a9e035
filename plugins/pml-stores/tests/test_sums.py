from __future__ import annotations

import random

import pytest

from pml_stores.sums import nearest

FOREVER = 10**18


@pytest.mark.parametrize(
    ("at", "now", "found"),
    [
        (240, FOREVER, 240),
        (241, FOREVER, 240),
        (251, FOREVER, 240),
        (252, FOREVER, 264),
        (263, FOREVER, 264),
        (-1, FOREVER, 0),
        (-23, FOREVER, -24),
        # What has not come yet need not be added.
        (241, 243, 240),
        (245, 248, 264),
        (245, 245, 264),
        (245, 100, 264),
    ],
)
def test_sums_are_taken_from_where_the_least_has_to_be_added_or_taken_off(at, now, found):
    assert nearest(at, 24, now) == found


def test_never_more_than_half_of_a_bucket_is_gone_through():
    chance = random.Random(1)
    for _ in range(1000):
        at, grain = chance.randrange(-(10**6), 10**6), chance.choice((1, 7, 60, 3600))
        found = nearest(at, grain, FOREVER)
        assert found % grain == 0
        assert abs(found - at) <= grain / 2
