from __future__ import annotations

from typing import Any

import pytest

from pml_execution_tools.definitions import GET_EXECUTION_RESULT, LIST_RECENT_EXECUTIONS
from pml_hookspecs import InvalidArguments
from pml_kit.mcp.arguments import checked

DEFAULTS = {
    "agent_name": None, "status": None, "triggered_by": None, "person": None, "tool": None, "hours": 24, "since": None,
    "until": None, "limit": 20, "cursor": None,
}  # fmt: skip


def test_what_is_left_out_or_null_has_its_default() -> None:
    assert checked(LIST_RECENT_EXECUTIONS, {}) == DEFAULTS
    assert checked(LIST_RECENT_EXECUTIONS, dict.fromkeys(DEFAULTS)) == DEFAULTS
    given = {"agent_name": "a", "execution_id": "x"}
    assert checked(GET_EXECUTION_RESULT, given) == {**given, "include_transcript": False, "select": None}


@pytest.mark.parametrize(
    ("name", "value"), [("hours", 1), ("hours", 168), ("hours", 1.5), ("limit", 1), ("limit", 100)]
)
def test_bounds_are_inclusive(name: str, value: float) -> None:
    assert checked(LIST_RECENT_EXECUTIONS, {name: value}) == {**DEFAULTS, name: value}


def test_a_whole_number_may_be_written_with_a_point() -> None:
    assert repr(checked(LIST_RECENT_EXECUTIONS, {"limit": 20.0})["limit"]) == "20"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hours": 0}, "'hours' must be from 1 to 168, not 0."),
        ({"hours": 169}, "'hours' must be from 1 to 168, not 169."),
        ({"hours": float("nan")}, "'hours' must be from 1 to 168, not nan."),
        ({"hours": "24"}, "'hours' must be a number, not '24'."),
        ({"hours": True}, "'hours' must be a number, not True."),
        ({"limit": 0}, "'limit' must be from 1 to 100, not 0."),
        ({"limit": 101}, "'limit' must be from 1 to 100, not 101."),
        ({"limit": 1.5}, "'limit' must be a whole number, not 1.5."),
        ({"status": "done"}, "'status' must be one of pending, running, success, failed, not 'done'."),
        ({"status": 1}, "'status' must be a string, not 1."),
        ({"triggered_by": "user"}, "'triggered_by' must be one of manual, schedule, agent, mcp, not 'user'."),
        ({"agent": "a"}, "unknown parameter 'agent'; did you mean 'agent_name'?."),
        (
            {"zz": "a"},
            f"unknown parameter 'zz'; known: {', '.join(LIST_RECENT_EXECUTIONS['inputSchema']['properties'])}.",
        ),
        ({"agent_name": ["x" * 99]}, "'agent_name' must be a string, not ['" + "x" * 38 + "…."),
    ],
)
def test_every_mistake_of_a_list_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        checked(LIST_RECENT_EXECUTIONS, arguments)
    assert str(caught.value) == f"list_recent_executions: {message}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "'agent_name' is missing; 'execution_id' is missing."),
        ({"agent_name": "a", "execution_id": 7}, "'execution_id' must be a string, not 7."),
        (
            {"agent_name": "a", "execution_id": "x", "include_transcript": "yes"},
            "'include_transcript' must be true or false, not 'yes'.",
        ),
        (
            {"agent_name": "a", "execution_id": "x", "include_transcript": 1},
            "'include_transcript' must be true or false, not 1.",
        ),
    ],
)
def test_every_mistake_of_a_result_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        checked(GET_EXECUTION_RESULT, arguments)
    assert str(caught.value) == f"get_execution_result: {message}"
