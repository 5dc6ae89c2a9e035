from __future__ import annotations

import pytest
from plans_kit import workflow_from

from pml_executor_dag import tool
from pml_executor_dag.tool import DEFINITION
from pml_hookspecs import InvalidArguments, RawObject, Session, ToolCall, Workflow, encode
from pml_testing.work import counted


def mistakes(arguments) -> list[str]:
    with pytest.raises(InvalidArguments) as caught:
        workflow_from(arguments)
    head, *lines = str(caught.value).split("\n- ")
    count = int(head.split("the workflow has ")[1].split()[0])
    assert count == len(lines)
    return lines


def of_tasks(*tasks, **more) -> dict:
    return {"workflow": {"tasks": list(tasks)}, **more}


A = {"id": "a", "tool": "s:t"}


def test_one_tool_is_listed_and_two_other_names_are_accepted(services):
    meta, *others = tool.pml_meta_tools(services)
    assert meta.definition["name"] == "execute_workflow"
    assert meta.aliases == ("execute_dag", "pml_execute_dag")
    assert meta.listed
    assert meta.task(of_tasks(A)) == tool.workflow_from(of_tasks(A))
    reading, *others = others
    assert reading.definition["name"] == "execute_workflow_read"
    assert reading.task is meta.task
    listed = [reading.listed(Session(key="k", client=client)) for client in ("claude-code/2", "test/1", "")]
    assert listed == [True, False, False]
    assert {other.definition["name"]: other.listed for other in others} == {
        "continue_workflow": False,
        "abort_workflow": False,
    }


def test_dry_run_is_a_boolean_that_is_false_by_default():
    assert DEFINITION["inputSchema"]["properties"]["dry_run"] == {
        "type": "boolean",
        "description": "If true, simulate execution without side effects",
        "default": False,
    }


def test_the_definition_takes_at_most_240_tokens():
    """Of the 400 that the three listed tools may cost together."""
    assert len(encode(DEFINITION)) / 4 <= 240


def test_the_definition_says_what_models_get_wrong_without_it():
    task = DEFINITION["inputSchema"]["properties"]["workflow"]["properties"]["tasks"]["items"]["properties"]
    assert {
        "id",
        "type",
        "tool",
        "arguments",
        "code",
        "language",
        "depends_on",
        "when",
        "for_each",
        "retry",
    } <= task.keys()
    assert "plan_digest" in DEFINITION["inputSchema"]["properties"]
    for part in ("(no .result)", "If it writes, dry_run first", "type code_execution", "guide_workflows"):
        assert part in DEFINITION["description"]


def test_a_workflow_is_read():
    task = {"id": "b", "type": "tool", "tool": "s:u", "arguments": {"x": "{{a.y}}"}, "depends_on": ["a"]}
    assert workflow_from(of_tasks(A, task, intent="why", dry_run=True)) == Workflow(
        id="workflow",
        tasks=(
            ToolCall(id="a", tool="s:t"),
            ToolCall(id="b", tool="s:u", arguments={"x": "{{a.y}}"}, depends_on=("a",)),
        ),
        intent="why",
        dry_run=True,
    )


def test_missing_arguments_are_empty():
    assert workflow_from(of_tasks(A)).tasks[0].arguments == {}


@pytest.mark.parametrize(
    ("given", "read"),
    [({}, None), ({"dry_run": False}, False), ({"dry_run": True}, True), ({"dry_run": "reads"}, "reads")],
)
def test_saying_nothing_leaves_dry_run_to_the_configuration(given, read):
    assert workflow_from(of_tasks(A, **given)).dry_run is read


def test_only_the_flag_differs_between_rehearsal_and_run():
    rehearsal, real = (workflow_from(of_tasks(A, intent="i", dry_run=flag)) for flag in (True, False))
    assert (rehearsal.tasks, rehearsal.intent) == (real.tasks, real.intent)


def test_arguments_may_come_undecoded():
    assert workflow_from(RawObject(encode(of_tasks(A)))).tasks == (ToolCall(id="a", tool="s:t"),)


def test_a_workflow_may_hold_workflows():
    inner = {
        "id": "n",
        "type": "workflow",
        "tasks": [A, {"id": "b", "tool": "s:t", "depends_on": ["a"]}],
        "depends_on": ["a"],
    }
    read = workflow_from(of_tasks(A, inner)).tasks[1]
    assert isinstance(read, Workflow)
    assert (read.id, read.depends_on, [t.id for t in read.tasks], read.dry_run) == ("n", ("a",), ["a", "b"], None)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({}, "workflow: is missing; give {"),
        ({"intent": "  "}, "workflow: is missing; give {"),
        (
            of_tasks(A, max_parallel=3),
            "max_parallel: unknown; known here: workflow, intent, dry_run, plan_digest, async; in workflow: tasks,",
        ),
        ({"workflow": "[]"}, "workflow: must be an object, not an array"),
        ({"workflow": {}}, "workflow.tasks: is missing"),
        (of_tasks(), "workflow.tasks: is empty"),
        ({"workflow": {"tasks": A}}, "workflow.tasks: must be an array, not an object"),
        ({"workflow": {"tasks": None}}, "workflow.tasks: must be an array, not null"),
        (of_tasks(A, dry_run="true"), "dry_run: must be true, false or 'reads', not a string"),
        (of_tasks(A, dry_run=1), "dry_run: must be true, false or 'reads', not a number"),
        (of_tasks(A, dry_run=None), "dry_run: must be true, false or 'reads', not null"),
        (of_tasks(A, intent=["x"]), "intent: must be a string, not an array"),
        (of_tasks(A, dryrun=True), "dryrun: unknown; did you mean 'dry_run'?"),
        (of_tasks(A, zzz=True), "zzz: unknown; known here: workflow, intent, dry_run"),
        ({"workflow": {"tasks": [A], "task": []}}, "workflow.task: unknown; did you mean 'tasks'?"),
        (of_tasks("a"), "workflow.tasks[0]: must be an object such as"),
        (of_tasks({"tool": "s:t"}), "workflow.tasks[0].id: is missing"),
        (of_tasks({"id": 1, "tool": "s:t"}), "workflow.tasks[0].id: must be a string, not a number"),
        (of_tasks({"id": "a b", "tool": "s:t"}), "workflow.tasks[0].id: 'a b' must be 1 to 64 letters"),
        (of_tasks({"id": "a"}), "workflow.tasks[0].tool: is missing"),
        (of_tasks({"id": "a", "tool": ""}), "workflow.tasks[0].tool: is empty"),
        (of_tasks({"id": "a", "tool": 5}), "workflow.tasks[0].tool: must be a string, not a number"),
        (of_tasks({**A, "arguments": []}), "workflow.tasks[0].arguments: must be an object, not an array"),
        (of_tasks({**A, "dependsOn": []}), "workflow.tasks[0].dependsOn: unknown; did you mean 'depends_on'?"),
        (
            of_tasks({**A, "type": "shell"}),
            "tasks[0].type: must be 'tool', 'code_execution', 'capability' or 'workflow', not 'shell'",
        ),
        (of_tasks({**A, "type": "code"}), "not 'code'; did you mean 'code_execution'?"),
        (
            of_tasks({**A, "type": 3}),
            "tasks[0].type: must be 'tool', 'code_execution', 'capability' or 'workflow', not a",
        ),
        (of_tasks({**A, "depends_on": "b"}), "workflow.tasks[0].depends_on: must be an array of task ids"),
        (of_tasks({**A, "depends_on": [None]}), "workflow.tasks[0].depends_on[0]: must be the id of a task, not null"),
        (
            of_tasks(A, {**A, "id": "b", "depends_on": ["c"]}),
            "workflow.tasks[1].depends_on[0]: no task here has the id 'c'",
        ),
        (of_tasks({**A, "id": "fetch"}, {**A, "depends_on": ["fetsh"]}), "did you mean 'fetch'?"),
        (of_tasks({**A, "depends_on": ["a"]}), "workflow.tasks[0].depends_on[0]: task 'a' cannot need its own result"),
        (
            of_tasks({**A, "arguments": {"x": ["{{b.y}}"]}}),
            "workflow.tasks[0].arguments.x[0]: no task here has the id 'b'",
        ),
        (of_tasks({**A, "arguments": {"x": "{{a}}"}}), "workflow.tasks[0].arguments.x: task 'a' cannot need its own"),
        (of_tasks({**A, "arguments": {"x": "{{if}"}}), "'{{if}' is not a reference; write {{task_id.path}}"),
        (of_tasks(A, A), "workflow.tasks[1].id: 'a' is already the id of workflow.tasks[0]"),
        (of_tasks(A, {"id": "n", "type": "workflow"}), "workflow.tasks[1].tasks: is missing"),
        (of_tasks({"id": "n", "type": "workflow", "tasks": [A], "tool": "s:t"}), "workflow.tasks[0].tool: unknown"),
        (
            of_tasks(A, {"id": "n", "type": "workflow", "tasks": [{"id": "b", "tool": "t", "depends_on": ["a"]}]}),
            "workflow.tasks[1].tasks[0].depends_on[0]: no task here has the id 'a'",
        ),
    ],
)
def test_a_mistake_is_told_with_place_and_remedy(arguments, line):
    (told,) = mistakes(arguments)
    assert line in told


def test_all_mistakes_of_a_plan_are_told_at_once():
    told = mistakes(
        of_tasks(
            {"id": "a", "tool": "s:t", "depends_on": ["c"], "argument": {}},
            {"id": "b", "depends_on": ["nobody"]},
            {"id": "c", "tool": "s:t", "arguments": {"x": "{{a.r}}"}},
            dry_run="no",
        )
    )
    assert [line.split(": ")[0] for line in told] == [
        "dry_run",
        "workflow.tasks[0].argument",
        "workflow.tasks[1].tool",
        "workflow.tasks[1].depends_on[0]",
        "workflow.tasks[0]",
    ]
    assert told[-1].endswith("tasks that wait for each other never start: a → c → a")


def test_a_task_that_is_wrong_itself_is_still_there_for_others():
    (told,) = mistakes(of_tasks({"id": "a", "tool": 1}, {"id": "b", "tool": "s:t", "arguments": {"x": "{{a}}"}}))
    assert told.startswith("workflow.tasks[0].tool")


def test_every_circle_is_shown():
    pairs = [("a", "b"), ("b", "a"), ("c", "d"), ("d", "c"), ("e", "a")]
    told = mistakes(of_tasks(*({"id": i, "tool": "s:t", "depends_on": [n]} for i, n in pairs)))
    assert [line.split("start: ")[1] for line in told] == ["a → b → a", "c → d → c"]


def test_a_circle_behind_another_is_shown_too():
    depends_on = {"a": ["c", "b"], "b": ["a"], "c": ["d"], "d": ["c"]}
    told = mistakes(of_tasks(*({"id": i, "tool": "s:t", "depends_on": n} for i, n in depends_on.items())))
    assert [line.split("start: ")[1] for line in told] == ["c → d → c", "a → b → a"]


@pytest.mark.parametrize("nested", [False, True])
def test_more_than_a_thousand_tasks_are_refused(nested):
    many = [{"id": f"t{i}", "tool": "s:t"} for i in range(1000)]
    assert len(workflow_from(of_tasks(*many)).tasks) == 1000
    more = [{"id": "n", "type": "workflow", "tasks": many}] if nested else [*many, A]
    (told,) = mistakes(of_tasks(*more))
    assert "1001 tasks; one workflow may have 1000; split it" in told


def test_workflows_cannot_be_nested_without_end():
    task: dict = A
    for _ in range(300):
        task = {"id": "n", "type": "workflow", "tasks": [task]}
    (told,) = mistakes(of_tasks(task))
    assert "more than 16 workflows within workflows" in told


@pytest.mark.parametrize(
    "arguments",
    [
        of_tasks(*({"id": f"task_number_{i}", "tool": "s:t", "depends_on": [f"tsk_number{i}x"]} for i in range(1000))),
        of_tasks(A, **{f"dry_run_{i}": i for i in range(20_000)}),
    ],
    ids=["wrong ids", "wrong names"],
)
def test_a_very_wrong_plan_holds_up_nobody(arguments):
    with counted() as work, pytest.raises(InvalidArguments) as caught:
        workflow_from(arguments)
    assert work.calls < 3_000_000
    assert len(str(caught.value).splitlines()) == 102
    assert "\n- and " in str(caught.value)
