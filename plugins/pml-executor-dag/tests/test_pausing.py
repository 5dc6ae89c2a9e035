"""Workflows that wait for somebody, and what becomes of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pauses import Approver, decide

from pml_executor_dag.pauses.paused_workflows import COLLECTION
from pml_hookspecs import (
    CapabilityRun,
    CodeRun,
    InvalidArguments,
    Status,
    Step,
    ToolCall,
    Workflow,
    replace,
)
from pml_testing.fakes import outcome

pytestmark = pytest.mark.anyio


async def test_a_task_that_waits_lets_the_rest_end_and_stops_what_needs_it(make, world):
    here = world(Approver(make, "b"))
    tasks = make.flow(make.call("a"), make.call("b"), make.call("c", "a"), make.call("d", "b"), make.call("e", "d"))
    ended = await here.execute(tasks)
    assert (ended.status, ended.failure.code) == (Status.INPUT_REQUIRED, "workflow.waiting")
    assert make.statuses(ended) == {"a": "ok", "b": "input_required", "c": "ok", "d": "pending", "e": "pending"}
    told = ended.output
    assert told["status"] == "input_required"
    assert told["waiting"] == [
        {"id": "b", "code": "approval.needed", "message": "A human has to look.", "approval_id": "ap-b"}
    ]
    assert f'"workflow_id": "{told["workflow_id"]}"' in told["how"]
    assert ended.failure.details["workflow_id"] == told["workflow_id"]
    assert make.results(ended)["d"] == {"id": "d", "tool": "s:d", "status": "pending", "depends_on": ["b"]}


async def test_it_goes_on_where_it_stopped_and_repeats_nothing(make, world):
    approver = Approver(make, "b")
    here = world(approver)
    ended = await here.execute(make.flow(make.call("a"), make.call("b", "a"), make.call("c", x="{{b.id}}{{a.id}}")))
    assert here.ran() == ["a", "b"]
    approver.approved.add("b")
    told = await decide(here, ended)
    assert [(task.id, task.arguments) for task in here.calls] == [("b", {}), ("c", {"x": "ba"})]
    assert (told["status"], [task["status"] for task in told["tasks"]]) == ("completed", ["ok", "ok", "ok"])


async def test_continuing_is_not_approving(make, world):
    here = world(Approver(make, "b"))
    ended = await here.execute(make.flow(make.call("a"), make.call("b", "a")))
    told = await decide(here, ended)
    assert (told["status"], told["workflow_id"] != ended.output["workflow_id"]) == ("input_required", True)
    assert here.ran() == ["a", "b", "b"]


async def test_code_and_capabilities_go_on_through_the_same_chain(make, world):
    approver = Approver(make, "b")
    here = world(approver)
    tasks = (
        make.call("a"),
        make.call("b", "a"),
        CodeRun(id="code", language="python", source="return a", depends_on=("a", "b"), intent="why"),
        CapabilityRun(id="learned", capability_id="x", inputs={"y": "{{code}}"}, depends_on=("b",)),
    )
    ended = await here.execute(make.flow(*tasks, intent="tidy up"))
    here.calls.clear()
    approver.approved.add("b")
    told = await decide(here, ended)
    assert [type(task) for task in here.calls] == [ToolCall, CodeRun, CapabilityRun]
    assert (here.calls[1].inputs, here.calls[1].intent) == ({"a": {"id": "a"}, "b": {"id": "b"}}, "why")
    assert (told["status"], told["intent"]) == ("completed", "tidy up")


async def test_layer_by_layer_each_layer_waits_for_somebody(make, world):
    here = world()
    code = CodeRun(id="b", language="python", source="", depends_on=("a",))
    tasks = make.flow(make.call("a"), code, make.call("c", "a"), make.call("d", "b"), by_layer=True)
    ended = await here.execute(tasks)
    assert (ended.status, ended.failure.code) == (Status.INPUT_REQUIRED, "workflow.layer_complete")
    assert (ended.output["status"], ended.output["layer"], ended.output["next"]) == ("layer_complete", 1, ["b", "c"])
    assert make.results(ended)["a"]["result"] == {"done": "a"}
    assert here.ran() == ["a"]
    told = await decide(here, ended)
    assert (told["status"], told["layer"], told["next"], here.ran()) == ("layer_complete", 2, ["d"], ["b", "c"])
    told = await decide(here, told)
    assert (told["status"], here.ran()) == ("completed", ["d"])


async def test_a_layer_in_which_something_failed_is_shown_while_something_else_can_go_on(make, world):
    here = world(Approver(make, fail={"a"}))
    ended = await here.execute(
        make.flow(
            make.call("a", step=Step(on_error="skip")),
            make.call("b"),
            make.call("c", "a"),
            make.call("d", "b"),
            by_layer=True,
        )
    )
    assert make.statuses(ended) == {"a": "error", "b": "ok", "c": "skipped", "d": "pending"}
    assert ended.output["next"] == ["d"]
    told = await decide(here, ended)
    assert told["status"] == "completed"


async def test_a_rehearsal_stops_after_no_layer(make, world):
    async def answer(task, _run):
        return outcome(task.id, {}, Status.SIMULATED)

    here = world(answer)
    ended = await here.execute(make.flow(make.call("a"), make.call("b", "a"), by_layer=True), dry_run=True)
    assert ended.status is Status.SIMULATED


async def test_a_failure_ends_the_workflow_though_something_waits(make, world):
    here = world(Approver(make, "b", fail={"a"}))
    ended = await here.execute(make.flow(make.call("a"), make.call("b"), make.call("c", "b")))
    assert (ended.status, ended.output["status"]) == (Status.ERROR, "failed")
    assert make.statuses(ended) == {"a": "error", "b": "input_required", "c": "pending"}
    assert "workflow_id" not in ended.output


async def test_abort_ends_it_and_undoes_what_it_did(make, world):
    here = world(Approver(make, "c"))
    step = Step(compensate=ToolCall(id="", tool="s:undo", arguments={"x": "{{a.id}}"}))
    ended = await here.execute(
        make.flow(make.call("a", step=step), make.call("b", "a"), make.call("c", "b"), make.call("d", "c"))
    )
    here.calls.clear()
    told = await decide(here, ended, "abort")
    assert [(task.id, task.arguments) for task in here.calls] == [("a~undo", {"x": "a"})]
    assert told["status"] == "failed"
    assert [(task["id"], task["status"]) for task in told["tasks"]] == [
        ("a", "ok"), ("b", "ok"), ("c", "cancelled"), ("d", "cancelled"),
    ]  # fmt: skip
    assert told["compensated"] == [{"id": "a", "status": "ok"}]


async def test_what_ended_before_the_pause_is_undone_after_what_ended_later(make, world):
    ends = datetime(2026, 1, 1, tzinfo=UTC)

    async def answer(task, _run):
        nonlocal ends
        ends += timedelta(seconds=1)
        ended = make.failed(task) if task.id == "d" else await approver(task, None)
        return replace(ended, started_at=ends)

    approver = Approver(make, "c")
    here = world(answer)
    step = Step(compensate=ToolCall(id="", tool="s:undo"))
    each = Step(compensate=ToolCall(id="", tool="s:undo", arguments={"x": "{{item}}"}), for_each=["x", "y"])
    tasks = make.flow(
        make.call("a", step=step), make.call("b", "a", step=each), make.call("c", "b", step=step), make.call("d", "c")
    )
    ended = await here.execute(tasks)
    approver.approved.add("c")
    here.calls.clear()
    await decide(here, ended)
    assert here.ran() == ["c", "d", "c~undo", "b[1]~undo", "b[0]~undo", "a~undo"]


async def test_replan_puts_new_tasks_in_place_of_what_has_not_ended_well(make, world):
    here = world(Approver(make, "b"))
    ended = await here.execute(make.flow(make.call("a"), make.call("b", "a"), make.call("c", "b")))
    here.calls.clear()
    new = [{"id": "b", "tool": "s:other", "arguments": {"x": "{{a.id}}"}}]
    here.answer.ids = set()
    told = await decide(here, ended, "replan", tasks=new)
    assert [(task.tool, task.arguments) for task in here.calls] == [("s:other", {"x": "a"})]
    assert (told["status"], [task["id"] for task in told["tasks"]]) == ("completed", ["a", "b"])


async def test_wrong_new_tasks_are_told_and_the_workflow_waits_on(make, world):
    here = world(Approver(make, "b"))
    ended = await here.execute(make.flow(make.call("a"), make.call("b", "a")))
    wrong = [{"id": "a", "tool": "s:t"}, {"id": "x", "tool": "s:t", "arguments": {"y": "{{b.id}}"}}]
    with pytest.raises(InvalidArguments) as caught:
        await decide(here, ended, "replan", tasks=wrong)
    assert "tasks[0].id: 'a' is taken, because a task with that id ended before" in str(caught.value)
    assert "tasks[1].arguments.y: no task here has the id 'b'" in str(caught.value)
    here.answer.approved.add("b")
    assert (await decide(here, ended))["status"] == "completed"


async def test_items_that_ended_are_not_repeated(make, world):
    approver = Approver(make, "a[1]", "a[3]")
    here = world(approver)
    ended = await here.execute(
        make.flow(make.call("a", step=Step(for_each=[0, 1, 2, 3]), n="{{item}}"), make.call("b", x="{{a}}"))
    )
    assert [one["id"] for one in ended.output["waiting"]] == ["a[1]", "a[3]"]
    here.calls.clear()
    approver.approved.add("a[3]")
    told = await decide(here, ended)
    assert ([one["id"] for one in told["waiting"]], here.ran()) == (["a[1]"], ["a[1]", "a[3]"])
    approver.approved.add("a[1]")
    told = await decide(here, told)
    assert here.calls[-1].arguments == {"x": [{"id": f"a[{i}]"} for i in range(4)]}
    assert (told["status"], here.ran()) == ("completed", ["a[1]", "b"])


@pytest.mark.parametrize(
    ("on_error", "status"), [("fail", "failed"), ("skip", "completed"), ("continue", "input_required")]
)
async def test_of_items_that_wait_and_items_that_failed(make, world, on_error, status):
    here = world(Approver(make, "a[0]", fail={"a[1]"}))
    ended = await here.execute(make.flow(make.call("a", step=Step(for_each=[0, 1, 2], on_error=on_error))))
    assert ended.output["status"] == status
    if status == "input_required":
        here.calls.clear()
        here.answer.approved.add("a[0]")
        told = await decide(here, ended)
        assert (told["tasks"][0]["result"], here.ran()) == ([{"id": "a[0]"}, None, {"id": "a[2]"}], ["a[0]"])


async def test_what_was_known_from_the_start_is_known_after_the_pause(make, world):
    here = world(Approver(make, "a"))
    before = outcome("before", {"n": 7})
    ended = await here.execute(
        make.flow(make.call("a"), make.call("b", "a", x="{{before.n}}"), known={"before": before})
    )
    here.answer.approved.add("a")
    assert (await decide(here, ended))["status"] == "completed"
    assert here.calls[-1].arguments == {"x": 7}


@pytest.mark.parametrize("each", [False, True])
async def test_a_workflow_within_goes_on_where_it_stopped(make, world, each):
    approver = Approver(make, "deep")
    here = world(approver)
    step = Step(for_each=["x"]) if each else Step()
    innermost = Workflow(id="m", tasks=(make.call("before"), make.call("deep", "before")))
    inner = Workflow(id="n", tasks=(make.call("first"), innermost), step=step)
    ended = await here.execute(make.flow(make.call("a"), inner, make.call("z", "n")))
    name = "n[0]" if each else "n"
    assert [one["id"] for one in ended.output["waiting"]] == [f"{name}/m/deep"]
    assert sorted(here.ran()) == ["a", "before", "deep", "first"]
    approver.approved.add("deep")
    told = await decide(here, ended)
    assert (told["status"], here.ran()) == ("completed", ["deep", "z"])
    assert {document.value["status"] for document in here.documents.kept.values()} == {"over"}


async def test_part_of_a_workflow_is_continued_with_the_whole_only(make, world):
    here = world(Approver(make, "b"))
    ended = await here.execute(make.flow(Workflow(id="n", tasks=(make.call("b"),))))
    (inner,) = (task for task in ended.output["tasks"] if task["id"] == "n")
    with pytest.raises(InvalidArguments, match="is part of another workflow; continue that one"):
        await decide(here, inner["result"])


async def test_a_part_that_is_forgotten_is_not_run_again(make, world):
    here = world(Approver(make, "b"))
    ended = await here.execute(make.flow(Workflow(id="n", tasks=(make.call("a"), make.call("b", "a")))))
    (inner,) = ended.output["tasks"]
    del here.documents.kept[COLLECTION, inner["result"]["workflow_id"]]
    here.calls.clear()
    told = await decide(here, ended)
    assert (told["tasks"][0]["error"]["code"], here.ran()) == ("workflow.forgotten", [])
