"""What models write instead of what a plan is made of: read where it is clear, and else named with what works."""

from __future__ import annotations

import json

import pytest
from plans_kit import workflow_from

from pml_executor_dag import Dag
from pml_hookspecs import CodeRun, Failure, InvalidArguments, Status, ToolCall
from pml_testing.fakes import FakeRun, outcome

pytestmark = pytest.mark.anyio
ROWS = "[{'id': 7, 'title': 'it\\'s', 'done': None, 'size': (1, 2)}]"
"""As mcp-server-sqlite writes what it found."""


def test_a_plan_written_as_a_string_is_read():
    task = {"id": "a", "tool": "s:t", "arguments": {"x": 1}}
    plain = workflow_from({"workflow": {"tasks": [task]}})
    as_text = {**task, "arguments": json.dumps({"x": 1})}
    assert workflow_from({"workflow": json.dumps({"tasks": [as_text]})}) == plain
    assert workflow_from({"workflow": {"tasks": json.dumps([task])}}) == plain


def test_a_string_that_spells_no_object_is_a_mistake():
    for wrong in ("{", "[]", "a.b", "{{a}}"):
        with pytest.raises(InvalidArguments, match="arguments: must be an object"):
            workflow_from({"workflow": {"tasks": [{"id": "a", "tool": "s:t", "arguments": wrong}]}})


async def ran(*tasks, text=ROWS, code=None):
    async def answer(task, _run):
        if isinstance(task, CodeRun):
            return outcome(task.id, status=Status.ERROR, failure=code)
        return outcome(task.id, {"content": [{"type": "text", "text": text}]})

    run = FakeRun(answer)
    workflow = workflow_from({"workflow": {"tasks": [{"id": "rows", "tool": "db:query"}, *tasks]}})
    ended = await Dag().execute(workflow, run)
    return {task["id"]: task for task in ended.output["tasks"]}, run.dispatched


async def test_rows_in_python_can_be_referred_to_and_looped_over():
    one = {"id": "one", "tool": "s:t", "arguments": {"x": "{{rows[0].id}}", "y": "{{rows[0].size[1]}}"}}
    each = {"id": "each", "tool": "s:t", "for_each": "{{rows}}", "arguments": {"x": "{{item.title}}"}}
    whole = {"id": "whole", "tool": "s:t", "arguments": {"x": "{{rows}}"}}
    _, dispatched = await ran(one, each, whole)
    given = {task.id: task.arguments for task in dispatched if isinstance(task, ToolCall)}
    assert given["one"] == {"x": 7, "y": 2}
    assert given["each[0]"] == {"x": "it's"}
    assert given["whole"] == {"x": ROWS}


@pytest.mark.parametrize("text", ["plain", "[<object at 0x1>]", "[" * 10_000, "{'a': datetime.now()}"])
async def test_a_text_that_cannot_be_taken_apart_is_told_with_what_can(text):
    told, _ = await ran({"id": "b", "tool": "s:t", "arguments": {"x": "{{rows[0].id}}"}}, text=text)
    assert "To take a text apart, use a task of code; it has the text as rows." in told["b"]["error"]["message"]


async def test_the_result_of_a_task_has_no_result():
    told, _ = await ran({"id": "b", "tool": "s:t", "arguments": {"x": "{{rows.result[0].id}}"}}, text='{"a": 1}')
    assert "{{rows}} is the result itself; write {{rows[0].id}}." in told["b"]["error"]["message"]


async def test_a_reference_in_code_that_failed_is_named_with_what_works():
    task = {"id": "c", "type": "code_execution", "language": "python", "code": "return {{rows.n}}"}
    failed = Failure("code.failed", "TypeError: unhashable")
    told, _ = await ran({**task, "depends_on": ["rows"]}, code=failed)
    assert told["c"]["error"]["message"] == (
        "TypeError: unhashable\n{{rows.n}} is not filled in within code; "
        'depends_on: ["rows"] gives the code the variable rows.'
    )
    told, _ = await ran({**task, "code": "return {{other}}"}, code=failed)
    assert told["c"]["error"]["message"] == "TypeError: unhashable"


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("${a.n}", "{{a.n}}"),
        ("${ a }", "{{a}}"),
        ("$a.items[0].n", "{{a.items[0].n}}"),
        ('${a["x y"]}', '{{a["x y"]}}'),
    ],
)
def test_a_reference_as_other_languages_write_it_is_a_mistake(text, instead):
    tasks = [{"id": "a", "tool": "s:t"}, {"id": "b", "tool": "s:t", "arguments": {"x": [text]}}]
    with pytest.raises(InvalidArguments) as refused:
        workflow_from({"workflow": {"tasks": tasks}})
    assert f"arguments.x[0]: {text!r} is not a reference; write {instead}" in str(refused.value)


@pytest.mark.parametrize("text", ["${HOME}", "$a", "costs $5.20", "echo ${a.n}", "$b.c"])
def test_what_only_looks_like_one_is_text(text):
    tasks = [{"id": "a", "tool": "s:t"}, {"id": "c", "tool": "s:t", "arguments": {"x": text}}]
    assert workflow_from({"workflow": {"tasks": tasks}}).tasks[1].arguments == {"x": text}


@pytest.mark.parametrize("when", ["{{a.n}} > 0", "a.n > 0", 'a.state == "open"', "a.n >"])
def test_a_condition_that_is_none_is_told_with_one_that_is(when):
    tasks = [{"id": "a", "tool": "s:t"}, {"id": "b", "tool": "s:t", "when": when}]
    with pytest.raises(InvalidArguments, match=r"such as a\.total > `0` && a\.state == 'open'"):
        workflow_from({"workflow": {"tasks": tasks}})
