from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_search import calibration
from pml_search._numpy import np

NOTHING_FITS = ["water the plants on my balcony", "tune my guitar", "knit me a pullover", "asdfgh qwertz", "bake bread"]
VAGUE = ["work with files", "delete something", "text", "messages of the team", "code and issues"]
FITS = ["read a file", "send an email", "generate image", "list the tables", "convert currency", "weather forecast"]


@pytest.mark.parametrize("query", NOTHING_FITS)
def test_a_query_that_nothing_fits_keeps_nothing(ranker, query):
    ranked = ranker.search(query, 50)
    assert ranked is None or ranked.relevance[0] < 0.5


@pytest.mark.parametrize("query", FITS)
def test_a_query_that_a_tool_fits_keeps_it_at_every_threshold(ranker, query):
    assert ranker.search(query, 50).relevance[0] >= 0.7


def test_higher_thresholds_keep_fewer(ranker):
    kept = [
        sum(int((ranker.search(query, 50).relevance >= threshold).sum()) for query in VAGUE) / len(VAGUE)
        for threshold in (0.5, 0.6, 0.7)
    ]
    assert kept[0] >= kept[1] >= kept[2] >= 1
    assert kept[0] > kept[2]
    assert kept[0] <= 10


@pytest.mark.parametrize(
    ("relevance", "probability"),
    [(0.5, 0.0105), (0.6, 0.0134), (0.7, 0.0177)],
)
def test_the_thresholds_people_set_stand_for_these_probabilities(relevance, probability):
    mapped = calibration.relevance(np.array([probability], np.float32))
    assert mapped[0] == pytest.approx(relevance, abs=0.01)


@given(st.lists(st.floats(0, 1, width=32), min_size=2, max_size=20))
def test_the_map_keeps_the_order_and_stays_within_its_bounds(chances):
    mapped = calibration.relevance(np.array(sorted(chances), np.float32)).tolist()
    assert all(0 <= low <= high <= 1 for low, high in pairwise(mapped))


@given(st.lists(st.floats(-8, 8, width=32), min_size=1, max_size=20))
def test_probabilities_fall_with_the_rank_and_are_not_measured_against_the_best(some):
    fits = np.array(some, np.float32)
    found = calibration.probability(fits)
    assert all(0 <= low <= high <= 1 for high, low in pairwise(found.tolist()))
    assert calibration.probability(fits[1:]).tolist() == found[1:].tolist()
