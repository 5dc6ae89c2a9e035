"""What a client is answered of a plan, compared with the report that the history keeps."""

from __future__ import annotations

import asyncio
import json

import jmespath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_executor_dag import answers
from pml_executor_dag.tool import workflow_from
from pml_hookspecs import RawObject, ToolCall, Workflow, encode
from pml_kit.json_line import json_line


def selected_answer(output, task):
    return asyncio.run(answers.selected_answer(output, task))


def shaped(told, workflow):
    return asyncio.run(answers.shaped(told, workflow))


def report(*tasks, **more):
    return {"status": "completed", "tasks": list(tasks), "layers": [[]], **more}


def ended(id_, result, *depends_on, **more):
    told = {"id": id_, "tool": f"s:{id_}", "status": "ok", "duration_ms": 3, "result": result}
    return told | ({"depends_on": list(depends_on)} if depends_on else {}) | more


ROWS = [{"n": i} for i in range(50)]
CHAIN = report(ended("rows", RawObject(encode({"rows": ROWS}))), ended("count", 50, "rows"))


def plan(*tasks, **more):
    given = [{"id": task["id"], "tool": task["tool"], "depends_on": task.get("depends_on", [])} for task in tasks]
    return workflow_from({"workflow": {"tasks": given, **more}})


def answer(told, workflow=None):
    return json.loads(selected_answer(told, workflow or Workflow(id="w", tasks=())))


def test_the_results_of_the_last_tasks_are_answered_and_the_status_of_all():
    assert answer(CHAIN) == {
        "status": "completed",
        "tasks": [{"id": "rows", "status": "ok"}, {"id": "count", "status": "ok", "result": 50}],
    }


def test_return_names_other_tasks():
    told = answer(CHAIN, plan(*CHAIN["tasks"], **{"return": ["rows"]}))
    assert [("result" in task) for task in told["tasks"]] == [True, False]
    assert told["tasks"][0]["result"] == {"rows": ROWS}


def test_all_is_the_report_as_it_is():
    assert selected_answer(CHAIN, plan(*CHAIN["tasks"], **{"return": "all"})) is CHAIN


def test_a_rehearsal_is_answered_whole():
    told = report(ended("a", 1), ended("b", 2, "a"), dry_run=True)
    assert selected_answer(told, Workflow(id="w", tasks=())) is told


def test_select_over_a_plan_sees_every_result_by_its_id():
    expression = "{n: length(rows.rows), last: rows.rows[-1].n, count: count}"
    told = answer(CHAIN, plan(*CHAIN["tasks"], select=expression))
    assert told["result"] == jmespath.search(expression, {"rows": {"rows": ROWS}, "count": 50})
    assert all("result" not in task for task in told["tasks"])


def test_select_on_a_task_cuts_its_own_result():
    workflow = workflow_from({"workflow": {"tasks": [{"id": "rows", "tool": "s:rows", "select": "rows[:2].n"}]}})
    told = answer(report(CHAIN["tasks"][0]), workflow)
    assert told["tasks"] == [{"id": "rows", "status": "ok", "result": [0, 1]}]


def test_an_expression_that_does_not_fit_loses_nothing():
    told = answer(CHAIN, plan(*CHAIN["tasks"], select="length(count)"))
    assert "length" in told["select_error"]
    assert told["tasks"][1]["result"] == 50


def test_what_failed_and_why_is_always_told():
    failed = {"id": "b", "tool": "s:b", "status": "error", "error": {"code": "x", "message": "no"}, "attempts": 2}
    told = answer(report(ended("a", 1), failed | {"depends_on": ["a"]}, status="failed", compensated=[{"id": "a"}]))
    assert told["tasks"][0]["result"] == 1, "what failed has used nothing up"
    assert told["tasks"][1] == {"id": "b", "status": "error", "attempts": 2, "error": failed["error"]}
    assert told["compensated"] == [{"id": "a"}]


def test_a_plan_within_is_cut_in_the_same_way():
    inner = report(ended("x", "long"), ended("y", "short", "x"))
    told = answer(report(ended("inside", inner, type="workflow"), ended("each", [inner, inner], type="workflow")))
    for result in (told["tasks"][0]["result"], *told["tasks"][1]["result"]):
        assert [task.get("result") for task in result["tasks"]] == [None, "short"]


def test_what_is_no_report_is_left_alone():
    for output in (None, "text", {"a": 1}, {"status": "pending", "execution_id": "x"}):
        assert selected_answer(output, Workflow(id="w", tasks=())) is output
    assert selected_answer(CHAIN, ToolCall(id="a", tool="s:a")) is CHAIN


@given(st.integers(1, 8).flatmap(lambda n: st.lists(st.sets(st.integers(0, 7)), min_size=n, max_size=n)))
def test_every_result_is_answered_or_was_used(needs):
    tasks = [ended(f"t{i}", i, *(f"t{j}" for j in sorted(need) if j < i)) for i, need in enumerate(needs)]
    told = shaped(report(*tasks), Workflow(id="w", tasks=()))
    used = {need for task in tasks for need in task.get("depends_on", ())}
    assert {task["id"] for task in told["tasks"] if "result" in task} == {task["id"] for task in tasks} - used
    assert any("result" in task for task in told["tasks"])


@given(st.integers(1, 8).flatmap(lambda n: st.lists(st.sets(st.integers(0, 7)), min_size=n, max_size=n)))
def test_a_plan_never_costs_more_than_its_calls_one_by_one(needs):
    """In bytes; each call by itself is answered with at least its result in the frame of a CallToolResult."""
    results = [{"rows": list(range(i * 3))} for i in range(len(needs))]
    tasks = [ended(f"t{i}", results[i], *(f"t{j}" for j in sorted(need) if j < i)) for i, need in enumerate(needs)]
    alone = sum(len(json_line({"content": [{"type": "text", "text": encode(one).decode()}]})) for one in results)
    assert len(selected_answer(report(*tasks), Workflow(id="w", tasks=()))) <= alone + len(
        '{"status":"completed","tasks":[]}'
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"return": ["nope"]}, "there is no task 'nope'"),
        ({"return": 5}, "must be ids of tasks"),
        ({"return": [5]}, "must be ids of tasks"),
        ({"select": "a["}, "JMESPath"),
        ({"select": 5}, "must be a string"),
    ],
)
def test_a_wrong_wish_is_a_mistake_of_the_plan(more, said):
    workflow = workflow_from({"workflow": {"tasks": [{"id": "a", "tool": "s:a"}], **more}})
    assert any(said in mistake for mistake in workflow.mistakes), workflow.mistakes


def test_a_wrong_wish_of_a_task_is_a_mistake_too():
    workflow = workflow_from({"workflow": {"tasks": [{"id": "a", "tool": "s:a", "select": "b["}]}})
    assert any("tasks[0].select" in mistake for mistake in workflow.mistakes)
