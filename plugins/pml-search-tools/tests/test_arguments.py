from __future__ import annotations

from typing import Any

import pytest

from pml_hookspecs import InvalidArguments
from pml_search_tools.arguments import checked
from pml_search_tools.definitions import CALL_TOOL, SEARCH_TOOLS


def test_what_is_left_out_or_null_has_its_default() -> None:
    expected = {"query": "q", "limit": 8, "detail": None, "server": None, "effects": None}
    assert checked(SEARCH_TOOLS, {"query": "q"}) == expected
    assert checked(SEARCH_TOOLS, {"query": "q", "limit": None, "detail": None, "server": None}) == expected


@pytest.mark.parametrize("limit", [1, 50, 8.0])
def test_whole_numbers_within_the_bounds_are_taken(limit: float) -> None:
    taken = checked(SEARCH_TOOLS, {"query": "q", "limit": limit})["limit"]
    assert taken == limit
    assert isinstance(taken, int)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "search_tools: 'query' is missing."),
        ({"query": None}, "search_tools: 'query' is missing."),
        ({"query": 7}, "search_tools: 'query' must be a string, not 7."),
        ({"query": "q", "limit": 0}, "search_tools: 'limit' must be from 1 to 50, not 0."),
        ({"query": "q", "limit": 51}, "search_tools: 'limit' must be from 1 to 50, not 51."),
        ({"query": "q", "limit": True}, "search_tools: 'limit' must be a whole number, not True."),
        ({"query": "q", "limit": "8"}, "search_tools: 'limit' must be a whole number, not '8'."),
        ({"query": "q", "limit": 1.5}, "search_tools: 'limit' must be a whole number, not 1.5."),
        ({"query": "q", "detail": "long"}, "search_tools: 'detail' must be 'brief' or 'full', not 'long'."),
        ({"query": "q", "detail": []}, "search_tools: 'detail' must be 'brief' or 'full', not []."),
        ({"query": "q", "effects": "any"}, "search_tools: 'effects' must be 'read_only', not 'any'."),
        ({"query": "q", "server": {}}, "search_tools: 'server' must be a string, not {}."),
        (
            {"qurey": "q"},
            "search_tools: unknown parameter 'qurey'; did you mean 'query'?; 'query' is missing.",
        ),
        (
            {"query": "q", "xyz": 1},
            "search_tools: unknown parameter 'xyz'; known: query, limit, detail, server, effects.",
        ),
    ],
)
def test_every_mistake_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        checked(SEARCH_TOOLS, arguments)
    assert str(caught.value) == message


def test_long_values_are_not_repeated_in_full() -> None:
    with pytest.raises(InvalidArguments, match=r"not 'x{39}…\.$"):
        checked(CALL_TOOL, {"name": "n", "arguments": "x" * 1000})
