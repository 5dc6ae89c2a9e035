from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_measure.queries import Query
from pml_measure.scores import hit, ndcg, quantile, recall

TWO = Query("q", (frozenset("ab"), frozenset("c")))


@pytest.mark.parametrize(
    ("ranked", "at", "expected"), [("ac", 2, 1.0), ("ab", 2, 0.5), ("xac", 1, 0.0), ("xac", None, 1.0), ("", 5, 0.0)]
)
def test_recall_is_the_share_of_groups_found(ranked: str, at: int | None, expected: float) -> None:
    assert recall(ranked, TWO, at) == expected


def test_a_hit_is_a_first_tool_that_is_needed() -> None:
    assert [hit(ranked, TWO) for ranked in ("b", "xb", "")] == [1.0, 0.0, 0.0]


def test_gain_is_discounted_by_place_and_counted_once_per_group() -> None:
    assert ndcg("ac", TWO, 10) == 1.0
    assert ndcg("abc", TWO, 10) == pytest.approx((1 + 1 / 2) / (1 + 1 / math.log2(3)))
    assert ndcg("xyz", TWO, 10) == 0.0
    assert ndcg("a", TWO, 1) == 1.0


@given(st.permutations("abcdef"), st.integers(1, 6))
def test_all_scores_are_shares(ranked: list[str], at: int) -> None:
    for score in (recall(ranked, TWO, at), ndcg(ranked, TWO, at), hit(ranked, TWO)):
        assert 0.0 <= score <= 1.0


def test_quantiles() -> None:
    assert [quantile([3, 1, 2], share) for share in (0.5, 0.95, 0.01)] == [2, 3, 1]
    assert quantile([], 0.5) == 0.0
