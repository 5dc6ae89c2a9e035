from __future__ import annotations

import pytest

from pml_console.insight.figures import percentile
from pml_console.insight.relations import HEIGHT, MOST_PAIRS, MOST_TOOLS, WIDTH, relations_of
from pml_console.pages.history import in_utc


@pytest.mark.parametrize(
    ("values", "percent", "found"),
    [([], 50, None), ([7], 95, 7), ([1, 2, 3, 4], 50, 2), (list(range(1, 101)), 95, 95), (list(range(1, 101)), 50, 50)],
)
def test_percentiles(values, percent, found):
    assert percentile(values, percent) == found


def test_tools_of_one_execution_are_pairs_and_the_gateways_own_are_not():
    made = relations_of([("a:x", "b:y", "a:x"), ("b:y", "a:x", "pml:search_tools"), ("c:z",), ("c:z", "a:x")])
    assert [(one.one, one.other, one.times) for one in made.pairs] == [("a:x", "b:y", 2), ("a:x", "c:z", 1)]
    assert made.looked_at == 4
    assert made.pairs[0].width > made.pairs[1].width
    assert [one.id for one in made.tools] == ["a:x", "b:y", "c:z"]


def test_the_circle_has_room_for_all_that_is_on_it():
    made = relations_of([tuple(f"s:{n:02}" for n in range(50))])
    assert len(made.tools) == MOST_TOOLS
    assert len(made.pairs) <= MOST_PAIRS
    assert len({(one.x, one.y) for one in made.tools}) == MOST_TOOLS
    assert all(0 < one.x < WIDTH and 0 < one.y < HEIGHT for one in made.tools)


def test_nothing_together_is_no_picture():
    assert (relations_of([("a:x",), ()]).pairs, relations_of([]).tools) == ([], [])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2026-07-01T10:00", "2026-07-01T10:00:00Z"),
        ("2026-07-01T10:00:00.000Z", "2026-07-01T10:00:00Z"),
        ("2026-07-01T10:00+02:00", "2026-07-01T08:00:00Z"),
        ("30d", "30d"),
        ("2026-01-31", "2026-01-31"),
        ("0001-01-01T00:00+02:00", "0001-01-01T00:00+02:00"),
        ("soon", "soon"),
    ],
)
def test_times_are_in_utc_where_no_zone_is_said(text, found):
    assert in_utc(text) == found
