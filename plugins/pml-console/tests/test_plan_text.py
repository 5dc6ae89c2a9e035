from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from pml_console.plans.plan_text import PlanTextError, arguments_of, line_of, text_of
from pml_hookspecs import ExecutionId, ExecutionRecord


def record(request, kind="workflow", target="", intent=""):
    return ExecutionRecord(
        id=ExecutionId("e"),
        kind=kind,
        target=target,
        principal="ada",
        started_at=datetime.now(UTC),
        status="ok",
        request=request,
        intent=intent,
    )


def node(id, type, target="", request=None, depends_on=()):
    return {"id": id, "type": type, "target": target, "request": request or {}, "depends_on": list(depends_on)}


def copied(request, **about):
    return json.loads(text_of(record(request, **about)))["workflow"]["tasks"]


def test_a_plan_may_stand_without_workflow_around_it():
    task = {"id": "a", "tool": "s:t"}
    assert arguments_of(json.dumps({"tasks": [task], "intent": "it"})) == {
        "intent": "it",
        "workflow": {"tasks": [task]},
    }
    assert arguments_of(json.dumps({"workflow": {"tasks": [task]}})) == {"workflow": {"tasks": [task]}}


def test_how_a_plan_is_run_is_what_the_buttons_say():
    plan = {"workflow": {"tasks": []}, "dry_run": False, "plan_digest": "f"}
    assert arguments_of(json.dumps(plan)) == {"workflow": {"tasks": []}}


def test_a_mistake_is_shown_with_its_place():
    with pytest.raises(PlanTextError, match="Line 2, column 7") as raised:
        arguments_of('{\n "a": b}')
    assert raised.value.line == ' "a": b}\n      ^'


def test_the_line_of_a_task_is_that_of_its_id():
    text = '{"tasks": [\n {"id":  "a"},\n {"tasks": [{"id": "ä"}]}]}'
    assert (line_of(text, "a"), line_of(text, "x/ä"), line_of(text, "a[2]")) == (2, 3, 2)
    assert (line_of(text, ""), line_of(text, "b")) == (None, None)


def test_every_kind_of_task_is_copied_as_plans_have_it():
    code = {"language": "python", "source": "1", "inputs": {"n": 1}}
    tasks = [
        node("a", "tool", "s:t", {"x": 1}),
        node("b", "code", "python", code, ["a"]),
        node("c", "capability", "cap", {"n": 2}),
        node("d", "workflow", request={"tasks": [node("e", "tool", "s:u")]}),
        node("f", "mail", request={"to": "ada"}),
    ]
    assert copied({"tasks": tasks}) == [
        {"id": "a", "tool": "s:t", "arguments": {"x": 1}},
        {
            "id": "b",
            "type": "code_execution",
            "language": "python",
            "code": "1",
            "inputs": {"n": 1},
            "depends_on": ["a"],
        },
        {"id": "c", "type": "capability", "capability_id": "cap", "inputs": {"n": 2}},
        {"id": "d", "type": "workflow", "tasks": [{"id": "e", "tool": "s:u", "arguments": {}}]},
        {"id": "f", "type": "mail", "inputs": {"to": "ada"}},
    ]


def test_one_call_is_a_plan_of_one_task():
    assert copied({"x": 1}, kind="tool", target="s:t") == [{"id": "a", "tool": "s:t", "arguments": {"x": 1}}]


def test_what_was_not_kept_whole_is_no_plan():
    with pytest.raises(PlanTextError, match="too long"):
        text_of(record({"truncated": True, "size_bytes": 9, "head": "{"}))
