"""What a task of a plan may say, and what is told when it is wrong."""

from __future__ import annotations

import pytest
from plans_kit import workflow_from

from pml_hookspecs import CapabilityRun, CodeRun, InvalidArguments, Retry, Step, ToolCall, Workflow

A = {"id": "a", "tool": "s:t"}
CODE = {"id": "c", "type": "code_execution", "code": "return 1"}
LEARNED = {"id": "l", "type": "capability", "capability_id": "x"}


def of_tasks(*tasks, **more):
    return {"workflow": {"tasks": list(tasks), **more}}


def read(*tasks, **more):
    return workflow_from(of_tasks(*tasks, **more)).tasks[-1]


def mistakes(arguments):
    with pytest.raises(InvalidArguments) as caught:
        workflow_from(arguments)
    return str(caught.value).split("\n- ")[1:]


def test_code_is_read():
    assert read(A, {**CODE, "depends_on": ["a"]}) == CodeRun(
        id="c", language="typescript", source="return 1", depends_on=("a",)
    )
    full = {**CODE, "language": "python", "inputs": {"x": "{{a}}"}, "intent": "why", "timeout_s": 5, "tools": ["s:*"]}
    assert read(A, full) == CodeRun(
        id="c", language="python", source="return 1", inputs={"x": "{{a}}"}, intent="why", timeout_s=5, tools=("s:*",)
    )


def test_capabilities_are_read():
    assert read(LEARNED) == CapabilityRun(id="l", capability_id="x")
    full = {**LEARNED, "inputs": {"n": 1}, "code": "return n", "language": "python", "timeout_s": 3}
    assert read(full) == CapabilityRun(
        id="l", capability_id="x", inputs={"n": 1}, source="return n", language="python", step=Step(timeout_s=3)
    )


def test_how_a_task_is_treated_is_read():
    undo = {"tool": "s:undo", "arguments": {"id": "{{b.id}}"}, "timeout_s": 2, "retry": {"attempts": 4}}
    given = {
        "id": "b", "tool": "s:u", "when": "a.n > `1`", "for_each": "{{a.items}}", "max_items": 7,
        "retry": {"attempts": 3, "delay_s": 0.25, "most_delay_s": 9}, "timeout_s": 1.5, "on_error": "continue",
        "compensate": undo, "idempotency_key": "k", "approve": True, "arguments": {"x": "{{item}}"},
    }  # fmt: skip
    assert read(A, given) == ToolCall(
        id="b",
        tool="s:u",
        arguments={"x": "{{item}}"},
        step=Step(
            when="a.n > `1`",
            for_each="{{a.items}}",
            max_items=7,
            retry=Retry(attempts=3, delay_s=0.25, most_delay_s=9),
            timeout_s=1.5,
            on_error="continue",
            compensate=ToolCall(
                id="b~undo",
                tool="s:undo",
                arguments={"id": "{{b.id}}"},
                step=Step(timeout_s=2, retry=Retry(attempts=4)),
            ),
            idempotency_key="k",
            approve=True,
        ),
    )


def test_limits_of_the_plan_are_read():
    limits = {"max_parallel": 3, "timeout_s": 60, "max_tool_calls": 9, "max_cost_usd": 0.5}
    plan = workflow_from(of_tasks(A, **limits, durable=True))
    assert plan == Workflow(
        id="workflow", tasks=(ToolCall(id="a", tool="s:t"),), max_parallel=3, timeout_s=60, max_tool_calls=9,
        max_cost_usd=0.5, durable=True,
    )  # fmt: skip
    assert workflow_from(of_tasks(A, per_layer_validation=True)).by_layer
    inner = {"id": "n", "type": "workflow", "tasks": [A], **limits, "for_each": ["x"]}
    assert read(inner) == Workflow(
        id="n", tasks=(ToolCall(id="a", tool="s:t"),), max_parallel=3, timeout_s=60, max_tool_calls=9, max_cost_usd=0.5,
        step=Step(for_each=["x"]),
    )  # fmt: skip


def test_tasks_of_a_workflow_for_each_item_may_refer_to_it():
    inner = {**A, "arguments": {"x": "{{item.y}}", "n": "{{index}}"}}
    assert read({"id": "n", "type": "workflow", "tasks": [inner], "for_each": ["z"]}).step.for_each == ["z"]
    (told,) = mistakes(of_tasks({"id": "n", "type": "workflow", "tasks": [{**A, "arguments": {"x": "{{item}}"}}]}))
    assert told == "workflow.tasks[0].tasks[0].arguments.x: 'item' means something only in a task with for_each"


def test_an_intent_alone_is_to_be_planned():
    assert workflow_from({"intent": "tidy up", "dry_run": True}) == Workflow(
        id="workflow", tasks=(), intent="tidy up", dry_run=True
    )


@pytest.mark.parametrize(
    ("task", "line"),
    [
        ({"id": "c", "type": "code_execution"}, "code: is missing; give the body of a function"),
        ({**CODE, "code": ""}, "code: is empty; give the body of a function"),
        ({**CODE, "language": "P p"}, "language: must be the name of a language, such as 'typescript', not 'P p'"),
        ({**CODE, "language": 3}, "language: must be the name of a language, such as 'typescript', not a number"),
        ({**CODE, "inputs": []}, "inputs: must be an object, not an array"),
        ({**CODE, "intent": 3}, "intent: must be a string, not a number"),
        ({**CODE, "tools": "s:*"}, "tools: must be an array of patterns of tool ids"),
        ({**CODE, "timeout_s": 0}, "timeout_s: must be a number from 0.001 to 604800 [s], not 0"),
        ({**CODE, "tool": "s:t"}, "tool: unknown; did you mean 'tools'?"),
        ({**CODE, "arguments": {}}, "arguments: unknown; known here: id, type, depends_on, code, language, inputs,"),
        ({"id": "l", "type": "capability"}, "capability_id: is missing; give its id, or the name"),
        ({**A, "code": "1"}, "code: unknown"),
        ({**A, "when": 1}, "when: must be a string, not a number"),
        ({**A, "when": "b["}, "when: is no JMESPath expression"),
        ({**A, "when": "b.c"}, "when: no task here has the id 'b'"),
        ({**A, "when": "size(b)"}, "when: there is no function size()"),
        ({**A, "for_each": "b.items"}, "for_each: must be an array, or a reference to one such as {{a.items}}, not"),
        ({**A, "for_each": "x{{b}}"}, "for_each: must be an array, or a reference"),
        ({**A, "for_each": None}, "for_each: must be an array, or a reference to one such as {{a.items}}, not null"),
        ({**A, "for_each": "{{if}"}, "for_each: '{{if}' is not a reference"),
        ({**A, "for_each": "{{b}}"}, "for_each: no task here has the id 'b'"),
        ({**A, "for_each": [1, 2, 3], "max_items": 2}, "for_each: has 3 items; max_items allows 2"),
        ({**A, "max_items": 0}, "max_items: must be a number from 1 to 1000, not 0"),
        ({**A, "max_items": 1.5}, "max_items: must be a whole number, not 1.5"),
        ({**A, "retry": 3}, "retry: must be an object, not a number"),
        ({**A, "retry": {"attempts": 21}}, "retry.attempts: must be a number from 1 to 20, not 21"),
        ({**A, "retry": {"delay_s": -1}}, "retry.delay_s: must be a number from 0 to 3600 [s], not -1"),
        ({**A, "retry": {"times": 3}}, "retry.times: unknown; known here: attempts, delay_s, most_delay_s"),
        ({**A, "timeout_s": "5"}, "timeout_s: must be a number from 0.001 to 604800 [s], not a string"),
        ({**A, "timeout_s": True}, "timeout_s: must be a number from 0.001 to 604800 [s], not a boolean"),
        ({**A, "timeout_s": 10**400}, "timeout_s: must be a number from 0.001 to 604800 [s], not a number"),
        ({**A, "timeout_s": float("nan")}, "timeout_s: must be a number from 0.001 to 604800 [s], not a number"),
        ({**A, "on_error": "ignore"}, "on_error: must be 'fail', 'continue' or 'skip', not 'ignore'"),
        ({**A, "approve": "yes"}, "approve: must be true or false, not a string"),
        ({**A, "idempotency_key": 1}, "idempotency_key: must be a string, not a number"),
        ({**A, "compensate": "undo"}, "compensate: must be an object, not a string"),
        ({**A, "compensate": {}}, "compensate.tool: is missing"),
        ({**A, "compensate": {"tool": "t", "id": "u"}}, "compensate.id: unknown"),
        ({**A, "compensate": {"tool": "t", "arguments": {"x": "{{b}}"}}}, "compensate.arguments.x: no task here has"),
        ({**A, "compensate": {"tool": "t", "compensate": {}}}, "compensate.compensate: unknown"),
        ({**A, "compensate": {"tool": "t", "for_each": 5}}, "compensate.for_each: unknown"),
        ({**A, "compensate": {"type": "shell"}}, "compensate.type: must be 'tool', 'code_execution'"),
        ({**A, "compensate": {"type": "workflow", "tasks": []}}, "compensate.tasks: is empty"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_task_is_told_with_place_and_remedy(task, line):
    (told,) = mistakes(of_tasks(task))
    assert told.startswith("workflow.tasks[0].")
    assert line in told


@pytest.mark.parametrize(
    ("plan", "line"),
    [
        ({"max_parallel": 0}, "workflow.max_parallel: must be a number from 1 to 1000, not 0"),
        ({"max_tool_calls": "many"}, "workflow.max_tool_calls: must be a number from 0 to 1e+06, not a string"),
        ({"max_cost_usd": -1}, "workflow.max_cost_usd: must be a number from 0 to 1e+06 [USD], not -1"),
        (
            {"durable": True, "per_layer_validation": True},
            "workflow.per_layer_validation: cannot be had together with dur",
        ),
        ({"durable": 1}, "workflow.durable: must be true or false, not a number"),
        ({"by_layer": True}, "workflow.by_layer: unknown"),
    ],
)
def test_a_mistake_in_the_plan_is_told(plan, line):
    (told,) = mistakes(of_tasks(A, **plan))
    assert line in told


def test_everything_wrong_is_told_at_once():
    told = mistakes(
        of_tasks(
            {**A, "when": "x[", "on_error": "no", "retry": {"attempts": 0}},
            {**CODE, "inputs": {"y": "{{q}}"}, "timeout_s": -1},
            {"id": "n", "type": "workflow", "tasks": [{**A, "for_each": 1}]},
            max_parallel=-1,
        )
    )
    assert sorted(line.split(": ")[0] for line in told) == [
        "workflow.max_parallel",
        "workflow.tasks[0].on_error",
        "workflow.tasks[0].retry.attempts",
        "workflow.tasks[0].when",
        "workflow.tasks[1].inputs.y",
        "workflow.tasks[1].timeout_s",
        "workflow.tasks[2].tasks[0].for_each",
    ]
