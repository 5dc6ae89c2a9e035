"""Tasks that run once for each item of an array."""

from __future__ import annotations

import asyncio

import pytest

from pml_executor_dag import Dag, Settings
from pml_hookspecs import Retry, Status, Step, Workflow
from pml_testing.fakes import FakeRun, outcome

pytestmark = pytest.mark.anyio
AT_ONCE = Retry(attempts=3, delay_s=0)


def codes(ended):
    return {task["id"]: task["error"]["code"] for task in ended.output["tasks"] if "error" in task}


async def test_item_and_index_mean_something_only_with_for_each(make):
    ended = await Dag().execute(make.flow(make.call("a", x="{{item}}")), FakeRun())
    assert "tasks[0].arguments.x: 'item' means something only in a task with for_each" in ended.failure.message


async def test_a_task_runs_once_for_each_item(make):
    async def answer(task, _run):
        if task.id == "list":
            return outcome(task.id, make.structured({"files": [{"name": "x"}, {"name": "y"}]}))
        return outcome(task.id, make.structured({"size": len(task.arguments["path"])}))

    run = FakeRun(answer)
    each = make.call("read", step=Step(for_each="{{list.files}}"), path="/{{item.name}}", n="{{index}}")
    ended = await Dag().execute(make.flow(make.call("list"), each, make.call("sum", path="{{read}}")), run)
    assert [task.id for task in run.dispatched] == ["list", "read[0]", "read[1]", "sum"]
    assert [task.arguments for task in run.dispatched[1:3]] == [{"path": "/x", "n": 0}, {"path": "/y", "n": 1}]
    assert run.dispatched[3].arguments == {"path": [{"size": 2}, {"size": 2}]}
    assert make.results(ended)["read"]["result"] == [{"size": 2}, {"size": 2}]
    assert make.results(ended)["read"]["depends_on"] == ["list"]
    assert [message for _, _, message in run.progressed] == ["list: ok", "read: ok", "sum: ok"]


async def test_items_may_be_given_and_hold_references(make):
    run = FakeRun()
    each = make.call("b", step=Step(for_each=["{{a}}", 2]), x="{{item}}")
    await Dag().execute(make.flow(make.call("a"), each), run)
    assert [task.arguments["x"] for task in run.dispatched[1:]] == ["a ran", 2]


async def test_what_an_item_brings_in_is_not_taken_for_a_reference(make):
    run = FakeRun()
    inner = Workflow(id="n", tasks=(make.call("use", x="{{item}}"),), step=Step(for_each=[r"\{{b.secret}}"]))
    nested = FakeRun()
    await Dag().execute(make.flow(inner), run)
    assert (await Dag().execute(run.dispatched[0], nested)).status is Status.OK
    assert nested.dispatched[0].arguments == {"x": "{{b.secret}}"}


async def test_no_items_are_no_work(make):
    run = FakeRun()
    ended = await Dag().execute(make.flow(make.call("a", step=Step(for_each=[])), make.call("b", "a")), run)
    assert (make.results(ended)["a"]["result"], [task.id for task in run.dispatched]) == ([], ["b"])


@pytest.mark.parametrize(
    ("found", "step", "code"),
    [
        ({"n": 1}, {}, "for_each.no_array"),
        ([1, 2, 3], {"max_items": 2}, "for_each.too_many"),
    ],
)
async def test_items_that_are_none_or_too_many_fail_the_task_and_nothing_is_cut_off(make, found, step, code):
    run = FakeRun(lambda task, _run: asyncio.sleep(0, outcome(task.id, make.structured(found))))
    each = make.call("b", step=Step(for_each="{{a}}", **step))
    ended = await Dag().execute(make.flow(make.call("a"), each), run)
    assert codes(ended) == {"b": code}
    assert len(run.dispatched) == 1


async def test_an_object_where_an_array_should_be_is_called_so(make):
    run = FakeRun(lambda task, _run: asyncio.sleep(0, outcome(task.id, make.structured({"n": 1}))))
    ended = await Dag().execute(make.flow(make.call("a"), make.call("b", step=Step(for_each="{{a}}"))), run)
    assert make.results(ended)["b"]["error"]["message"] == "for_each must find an array, not an object."


async def test_items_that_a_reference_does_not_find_fail_the_task(make):
    ended = await Dag().execute(make.flow(make.call("a"), make.call("b", step=Step(for_each="{{a.x}}"))), FakeRun())
    assert codes(ended) == {"b": "reference.missing"}


@pytest.mark.parametrize(
    ("on_error", "b", "after", "status"),
    [
        ("fail", "error", "skipped", Status.ERROR),
        ("skip", "error", "skipped", Status.OK),
        ("continue", "error", "ok", Status.OK),
    ],
)
async def test_of_items_that_fail_the_others_are_told(make, on_error, b, after, status):
    async def answer(task, _run):
        return make.failed(task) if task.id == "b[1]" else outcome(task.id, make.structured({"id": task.id}))

    run = FakeRun(answer)
    each = make.call("b", step=Step(for_each=[1, 2, 3], on_error=on_error))
    ended = await Dag().execute(make.flow(each, make.call("after", x="{{b}}")), run)
    told = make.results(ended)
    assert (told["b"]["status"], told["after"]["status"], ended.status) == (b, after, status)
    assert told["b"]["result"] == [{"id": "b[0]"}, None, {"id": "b[2]"}]
    assert told["b"]["error"]["message"] == "1 of 3 items failed: [1] (tool.failed: it broke)."
    if after == "ok":
        assert run.dispatched[-1].arguments == {"x": [{"id": "b[0]"}, None, {"id": "b[2]"}]}


async def test_items_that_all_timed_out_are_told_apart_from_errors(make):
    async def answer(task, _run):
        return make.failed(task, "tool.timed_out", Status.TIMED_OUT)

    ended = await Dag().execute(make.flow(make.call("a", step=Step(for_each=[1, 2]))), FakeRun(answer))
    assert make.statuses(ended) == {"a": "timed_out"}


async def test_items_share_the_limit_of_the_workflow(make):
    under_way, most = 0, 0

    async def answer(task, _run):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return outcome(task.id)

    each = [make.call(id_, step=Step(for_each=list(range(20)))) for id_ in "ab"]
    ended = await Dag(Settings(max_parallel=50)).execute(make.flow(*each, max_parallel=3), FakeRun(answer))
    assert (ended.status, most) == (Status.OK, 3)


async def test_a_workflow_runs_for_each_item_and_its_tasks_know_it(make, world):
    async def answer(task, _run):
        return outcome(task.id, make.structured(dict(task.arguments)))

    here = world(answer)
    inner = Workflow(
        id="one",
        tasks=(make.call("read", name="{{item.name}}"), make.call("note", text="{{index}}: {{read.name}}")),
        step=Step(for_each=[{"name": "x"}, {"name": "y"}]),
    )
    ended = await here.execute(make.flow(inner))
    assert sorted(here.paths) == [
        "w/one[0]", "w/one[0]/note", "w/one[0]/read", "w/one[1]", "w/one[1]/note", "w/one[1]/read",
    ]  # fmt: skip
    assert [task["result"] for task in make.results(ended)["one"]["result"][1]["tasks"]] == [
        {"name": "y"},
        {"text": "1: y"},
    ]


async def test_ids_of_tasks_cannot_hide_the_item(make):
    inner = Workflow(id="n", tasks=(make.call("item"),), step=Step(for_each=[1]))
    ended = await Dag().execute(make.flow(inner), FakeRun())
    assert "tasks[0].tasks[0].id: 'item' is taken, because for_each is above it" in ended.failure.message


async def test_items_are_tried_again_each_on_its_own(make):
    async def answer(task, _run):
        return make.failed(task) if task.id in ("a[1]", "a[1]#2") else outcome(task.id)

    run = FakeRun(answer)
    ended = await Dag().execute(make.flow(make.call("a", step=Step(for_each=[0, 1], retry=AT_ONCE))), run)
    assert sorted(task.id for task in run.dispatched) == ["a[0]", "a[1]", "a[1]#2", "a[1]#3"]
    assert (ended.status, make.results(ended)["a"]["attempts"]) == (Status.OK, 3)
