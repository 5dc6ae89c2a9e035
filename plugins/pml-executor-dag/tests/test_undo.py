from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from pml_executor_dag import Dag
from pml_executor_dag.pauses.continuation import carry_out, decision_from
from pml_hookspecs import InvalidArguments, Retry, Status, Step, ToolCall, ToolFailed, Workflow, replace
from pml_testing.fakes import FakeRun, outcome

pytestmark = pytest.mark.anyio


def undo(tool="s:undo", **arguments):
    return Step(compensate=ToolCall(id="any", tool=tool, arguments=arguments))


def failing(make, *ids):
    async def answer(task, _run):
        return make.failed(task) if task.id in ids else outcome(task.id, make.structured({"id": f"made-{task.id}"}))

    return FakeRun(answer)


async def test_what_ended_well_is_undone_in_reverse_order_of_its_end(make):
    first = asyncio.Event()

    async def answer(task, _run):
        if task.id == "a":
            await first.wait()
        if task.id == "b":
            first.set()
        return make.failed(task) if task.id == "c" else outcome(task.id, make.structured({"id": f"made-{task.id}"}))

    run = FakeRun(answer)
    tasks = make.flow(
        make.call("a", step=undo(x="{{a.id}}")),
        make.call("b", step=undo(x="{{b.id}}", y="{{a.id}}")),
        make.call("c", "a", "b", step=undo()),
        make.call("d", "c", step=undo()),
    )
    ended = await Dag().execute(tasks, run)
    assert [task.id for task in run.dispatched] == ["a", "b", "c", "a~undo", "b~undo"]
    assert [task.arguments for task in run.dispatched[3:]] == [{"x": "made-a"}, {"x": "made-b", "y": "made-a"}]
    assert ended.output["compensated"] == [{"id": "a", "status": "ok"}, {"id": "b", "status": "ok"}]
    assert ended.failure.message.endswith("Undone: 2 of 2.")
    assert ended.failure.details["not_undone"] == []


async def test_a_workflow_that_ends_well_undoes_nothing(make):
    run = failing(make)
    ended = await Dag().execute(make.flow(make.call("a", step=undo())), run)
    assert ([task.id for task in run.dispatched], "compensated" in ended.output) == (["a"], False)


@pytest.mark.parametrize("on_error", ["continue", "skip"])
async def test_a_failure_that_is_allowed_undoes_nothing(make, on_error):
    run = failing(make, "b")
    ended = await Dag().execute(
        make.flow(make.call("a", step=undo()), make.call("b", step=Step(on_error=on_error))), run
    )
    assert (ended.status, len(run.dispatched)) == (Status.OK, 2)


async def test_each_item_that_ended_well_is_undone(make):
    run = failing(make, "a[1]")
    step = Step(
        for_each=["x", "y", "z"], compensate=ToolCall(id="", tool="s:u", arguments={"n": "{{item}}", "id": "{{a.id}}"})
    )
    await Dag().execute(make.flow(make.call("a", step=step)), run)
    undone = {task.id: task.arguments for task in run.dispatched[3:]}
    assert undone == {"a[2]~undo": {"n": "z", "id": "made-a[2]"}, "a[0]~undo": {"n": "x", "id": "made-a[0]"}}


async def test_what_cannot_be_undone_is_told_and_stops_no_other(make):
    run = failing(make, "d", "b~undo")
    ended = await Dag().execute(
        make.flow(
            make.call("a", step=undo()),
            make.call("b", "a", step=undo()),
            make.call("c", "b", step=undo(x="{{c.nothing}}")),
            make.call("d", "c"),
        ),
        run,
    )
    assert [(end["id"], end["status"]) for end in ended.output["compensated"]] == [
        ("c", "error"),
        ("b", "error"),
        ("a", "ok"),
    ]
    assert ended.output["compensated"][0]["error"]["code"] == "reference.missing"
    assert ended.failure.message.endswith("Undone: 1 of 3. Not undone, look yourself: c, b.")
    assert ended.failure.details["not_undone"] == ["c", "b"]


async def test_undoing_may_refer_to_what_never_ran_and_is_told(make):
    run = failing(make, "b")
    ended = await Dag().execute(
        make.flow(make.call("a", step=undo(x="{{c.id}}")), make.call("b", "a"), make.call("c", "b")), run
    )
    assert ended.output["compensated"] == [{"id": "a", "status": "ok"}]
    assert run.dispatched[-1].arguments == {"x": None}


async def test_undoing_is_tried_again_as_it_says(make):
    run = failing(make, "b", "a~undo")
    step = Step(compensate=ToolCall(id="", tool="s:u", step=Step(retry=Retry(attempts=2, delay_s=0))))
    ended = await Dag().execute(make.flow(make.call("a", step=step), make.call("b", "a")), run)
    assert [task.id for task in run.dispatched] == ["a", "b", "a~undo", "a~undo#2"]
    assert ended.output["compensated"] == [{"id": "a", "status": "ok"}]


async def test_a_workflow_can_undo(make, world):
    async def answer(task, _run):
        return make.failed(task) if task.id == "b" else outcome(task.id, make.structured({}))

    here = world(answer)
    step = Step(compensate=Workflow(id="", tasks=(make.call("one"), make.call("two", "one"))))
    ended = await here.execute(make.flow(make.call("a", step=step), make.call("b", "a")))
    assert here.paths == ["w/a", "w/b", "w/a~undo", "w/a~undo/one", "w/a~undo/two"]
    assert ended.output["compensated"] == [{"id": "a", "status": "ok"}]


async def test_a_workflow_that_took_too_long_is_undone(make):
    async def answer(task, _run):
        if task.id == "slow":
            await asyncio.Event().wait()
        return outcome(task.id, make.structured({}))

    run = FakeRun(answer)
    ended = await Dag().execute(make.flow(make.call("a", step=undo()), make.call("slow", "a"), timeout_s=0.05), run)
    assert (ended.status, ended.output["compensated"]) == (Status.TIMED_OUT, [{"id": "a", "status": "ok"}])


async def test_a_cancelled_workflow_undoes_nothing(make):
    began = asyncio.Event()

    async def answer(task, _run):
        if task.id == "b":
            began.set()
            await asyncio.Event().wait()
        return outcome(task.id)

    run = FakeRun(answer)
    running = asyncio.create_task(Dag().execute(make.flow(make.call("a", step=undo()), make.call("b", "a")), run))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [task.id for task in run.dispatched] == ["a", "b"]


class Human:
    """Has to look at some tasks, and says how that ended."""

    def __init__(self, make, *ids, fail=()):
        self.make, self.waiting, self.fail = make, set(ids), set(fail)

    async def __call__(self, task, run):
        if task.id in self.waiting:
            return self.make.waits(task)
        ended = self.make.failed(task) if task.id in self.fail else outcome(task.id, self.make.structured({}))
        return replace(ended, started_at=datetime.now(UTC))


async def decided(world, report, what="continue", **more):
    decision = decision_from({"workflow_id": report["workflow_id"], "decision": what, **more})
    try:
        return await carry_out(decision, world.documents, world.run("continue"), world.services.catalog)
    except ToolFailed as exc:
        return exc.content


def three(make):
    """Each does something, the last fails."""
    tasks = make.call("a", step=undo()), make.call("b", "a", step=undo()), make.call("c", "b", step=undo())
    return make.flow(*tasks, make.call("bad", "c"), make.call("after", "bad"))


async def test_undoing_that_a_human_must_look_at_waits_and_goes_on_where_it_stopped(make, world):
    human = Human(make, "b~undo", fail={"bad"})
    here = world(human)
    ended = await here.execute(three(make))
    assert (ended.status, ended.failure.code) == (Status.INPUT_REQUIRED, "workflow.waiting")
    assert here.ran() == ["a", "b", "c", "bad", "c~undo", "b~undo"]
    told = ended.output
    assert [(one["id"], one["approval_id"]) for one in told["waiting"]] == [("b~undo", "ap-b~undo")]
    assert [(one["id"], one["status"]) for one in told["compensated"]] == [("c", "ok"), ("b", "input_required")]
    assert make.statuses(ended)["bad"] == "error"
    assert "has failed, and undoing what it did waits for an answer or an approval: b." in ended.failure.message
    told = await decided(here, told)
    assert (told["status"], here.ran()) == ("input_required", ["b~undo"])
    human.waiting.clear()
    told = await decided(here, told)
    assert (told["status"], here.ran()) == ("failed", ["b~undo", "a~undo"])
    assert [(one["id"], one["status"]) for one in told["compensated"]] == [("c", "ok"), ("b", "ok"), ("a", "ok")]
    assert [task["status"] for task in told["tasks"]] == ["ok", "ok", "ok", "error", "skipped"]


async def test_a_human_who_refuses_ends_the_undoing_of_that_one_only(make, world):
    human = Human(make, "b~undo", fail={"bad"})
    here = world(human)
    ended = await here.execute(three(make))
    human.waiting.clear()
    human.fail.add("b~undo")
    told = await decided(here, ended.output)
    assert [(one["id"], one["status"]) for one in told["compensated"]] == [("c", "ok"), ("b", "error"), ("a", "ok")]
    assert told["status"] == "failed"


async def test_what_waited_when_the_workflow_failed_does_not_run_after_its_undoing_waited(make, world):
    human = Human(make, "a~undo", "w", fail={"bad"})
    here = world(human)
    ended = await here.execute(
        make.flow(make.call("a", step=undo()), make.call("bad", "a"), make.call("w"), make.call("x", "w"))
    )
    here.ran()
    human.waiting.clear()
    told = await decided(here, ended.output)
    assert (told["status"], here.ran()) == ("failed", ["a~undo"])
    assert [task["status"] for task in told["tasks"]] == ["ok", "error", "cancelled", "cancelled"]


async def test_what_is_being_undone_cannot_be_planned_anew(make, world):
    here = world(Human(make, "a~undo", fail={"bad"}))
    ended = await here.execute(make.flow(make.call("a", step=undo()), make.call("bad", "a")))
    with pytest.raises(InvalidArguments, match="is being undone; say 'continue'"):
        await decided(here, ended.output, "replan", tasks=[{"id": "n", "tool": "s:n"}])


async def test_items_are_undone_on_where_it_stopped_too(make, world):
    human = Human(make, "a[0]~undo", fail={"bad"})
    here = world(human)
    each = Step(for_each=[1, 2], compensate=ToolCall(id="", tool="s:u", arguments={"x": "{{item}}"}))
    ended = await here.execute(make.flow(make.call("a", step=each), make.call("bad", "a")))
    assert here.ran()[-2:] == ["a[1]~undo", "a[0]~undo"]
    human.waiting.clear()
    told = await decided(here, ended.output)
    assert [(task.id, task.arguments) for task in here.calls] == [("a[0]~undo", {"x": 1})]
    assert [one["status"] for one in told["compensated"]] == ["ok", "ok"]


async def test_a_workflow_that_undoes_goes_on_where_it_waited(make, world):
    human = Human(make, "two", fail={"bad"})
    here = world(human)
    step = Step(compensate=Workflow(id="", tasks=(make.call("one"), make.call("two", "one"))))
    ended = await here.execute(make.flow(make.call("a", step=step), make.call("bad", "a")))
    assert (ended.output["status"], here.ran()) == ("input_required", ["a", "bad", "one", "two"])
    human.waiting.clear()
    told = await decided(here, ended.output)
    assert (told["compensated"], here.ran()) == ([{"id": "a", "status": "ok"}], ["two"])


async def test_undoing_that_waits_and_cannot_be_kept_fails_and_says_so(make):
    ended = await Dag().execute(
        make.flow(make.call("a", step=undo()), make.call("bad", "a")), FakeRun(Human(make, "a~undo", fail={"bad"}))
    )
    assert (ended.status, ended.output["status"]) == (Status.ERROR, "failed")
    assert "Not undone, look yourself: a." in ended.failure.message
