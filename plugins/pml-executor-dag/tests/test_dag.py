from __future__ import annotations

import asyncio
import gc
from datetime import UTC

import pytest

from pml_executor_dag import Dag, Settings
from pml_hookspecs import CapabilityRun, CodeRun, Failure, RawObject, Status, ToolCall, Workflow, encode
from pml_testing.executor import ExecutorContract
from pml_testing.fakes import FakeRun, outcome

pytestmark = pytest.mark.anyio


class TestDag(ExecutorContract):
    @pytest.fixture
    def executor(self):
        return Dag(Settings())


def call(id_, *depends_on, **arguments):
    return ToolCall(id=id_, tool=f"s:{id_}", arguments=arguments, depends_on=depends_on)


def flow(*tasks, **more):
    return Workflow(id="w", tasks=tasks, **more)


def text_result(*texts):
    return {"content": [{"type": "text", "text": text} for text in texts]}


def failed(task, status=Status.ERROR, code="tool.failed", message="it broke", **more):
    return outcome(task.id, status=status, failure=Failure(code, message, **more))


def results(ended):
    return {task["id"]: task for task in ended.output["tasks"]}


def answering(**answers):
    """A run whose tasks have the given outputs, or fail when there is no output for them."""

    async def answer(task, _run):
        if task.id not in answers:
            return failed(task)
        return outcome(task.id, answers[task.id])

    return FakeRun(answer)


async def test_tasks_run_and_every_result_is_told_in_plan_order():
    run = FakeRun()
    ended = await Dag().execute(flow(call("b", "a"), call("a"), intent="why"), run)
    assert [task.id for task in run.dispatched] == ["a", "b"]
    assert ended.status is Status.OK
    assert ended.output == {
        "status": "completed",
        "intent": "why",
        "tasks": [
            {"id": "b", "tool": "s:b", "status": "ok", "duration_ms": 0, "result": "b ran", "depends_on": ["a"]},
            {"id": "a", "tool": "s:a", "status": "ok", "duration_ms": 0, "result": "a ran"},
        ],
        "layers": [["a"], ["b"]],
    }


async def test_the_output_is_json():
    run = answering(a=RawObject(b'{"content":[],"structuredContent":{"n":1}}'), b=RawObject(b'{"content":[]}'))
    ended = await Dag().execute(flow(call("a"), call("b")), run)
    assert b'"result":{"n":1}' in encode(ended.output)


async def test_independent_tasks_run_side_by_side():
    barrier = asyncio.Barrier(4)

    async def answer(task, _run):
        await barrier.wait()
        return outcome(task.id)

    ended = await asyncio.wait_for(Dag().execute(flow(*(call(f"t{i}") for i in range(4))), FakeRun(answer)), 30)
    assert ended.status is Status.OK


async def test_a_task_starts_as_soon_as_its_own_needs_have_ended():
    slow = asyncio.Event()

    async def answer(task, _run):
        if task.id == "slow":
            await slow.wait()
        if task.id == "after_quick":
            slow.set()
        return outcome(task.id)

    tasks = flow(call("slow"), call("quick"), call("after_quick", "quick"), call("after_slow", "slow"))
    ended = await asyncio.wait_for(Dag().execute(tasks, FakeRun(answer)), 30)
    assert ended.status is Status.OK


async def test_no_more_than_max_parallel_run_at_once():
    under_way, most = 0, 0

    async def answer(task, _run):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return outcome(task.id)

    tasks = flow(*(call(f"t{i}") for i in range(20)), call("last", "t0"))
    ended = await Dag(Settings(max_parallel=3)).execute(tasks, FakeRun(answer))
    assert (ended.status, most) == (Status.OK, 3)


async def test_a_failed_task_stops_those_that_need_it_and_no_others():
    run = answering(a=1, d=2)
    ended = await Dag().execute(
        flow(call("a"), call("b", "a"), call("c", "b", "a"), call("d", "a"), call("e", "c")), run
    )
    told = results(ended)
    assert {id_: task["status"] for id_, task in told.items()} == {
        "a": "ok", "b": "error", "c": "skipped", "d": "ok", "e": "skipped",
    }  # fmt: skip
    assert told["b"]["error"] == {"code": "tool.failed", "message": "it broke"}
    assert told["c"]["error"]["code"] == "task.skipped"
    assert "'b' (error)" in told["c"]["error"]["message"]
    assert "'c' (skipped)" in told["e"]["error"]["message"]
    assert ended.status is Status.ERROR
    assert ended.output["status"] == "failed"
    assert ended.failure.code == "workflow.failed"
    message = "1 of 5 tasks failed: b (tool.failed: it broke). Not run, because they need these: 2."
    assert ended.failure.message == message
    assert ended.failure.details == {"failed": ["b"], "skipped": ["c", "e"]}


async def test_a_long_row_of_tasks_is_skipped_without_exhausting_the_stack():
    tasks = flow(call("t0"), *(call(f"t{i}", f"t{i - 1}") for i in range(1, 3000)))
    run = answering()
    ended = await Dag().execute(tasks, run)
    assert len(run.dispatched) == 1
    assert len(ended.failure.details["skipped"]) == 2999


async def test_a_message_names_ten_failed_tasks_and_counts_the_rest():
    ended = await Dag().execute(flow(*(call(f"t{i}") for i in range(12))), answering())
    assert "12 of 12 tasks failed: t0 (" in ended.failure.message
    assert "t9 (" in ended.failure.message
    assert ended.failure.message.endswith("and 2 more.")


async def test_a_time_out_is_told_apart_from_an_error_and_touches_no_other_task():
    async def answer(task, _run):
        if task.id == "late":
            return failed(
                task, Status.TIMED_OUT, "tool.timed_out", "fs: no answer to tools/call in 10 s", retryable=True
            )
        return failed(task) if task.id == "wrong" else outcome(task.id, 1)

    ended = await Dag().execute(flow(call("late"), call("wrong"), call("fine")), FakeRun(answer))
    told = results(ended)
    assert [task["status"] for task in told.values()] == ["timed_out", "error", "ok"]
    assert told["late"]["error"] == {"code": "tool.timed_out", "message": "fs: no answer to tools/call in 10 s"}


@pytest.mark.parametrize(("retryable", "expected"), [((True, True), True), ((True, False), False)])
async def test_a_workflow_may_be_tried_again_when_all_that_failed_may(retryable, expected):
    async def answer(task, _run):
        return failed(task, retryable=retryable[int(task.id)])

    ended = await Dag().execute(flow(call("0"), call("1")), FakeRun(answer))
    assert ended.failure.retryable is expected


async def test_what_a_failed_task_said_and_left_is_told():
    async def answer(task, _run):
        output = {"stdout": "half"} if task.id == "code" else text_result("no such file")
        message = "NameError: x" if task.id == "code" else "no such file"
        return outcome(task.id, output, Status.ERROR, failure=Failure("code.raised", message))

    code = CodeRun(id="code", language="python", source="x")
    told = results(await Dag().execute(flow(code, call("a")), FakeRun(answer)))
    assert told["code"] == {
        "id": "code",
        "type": "code_execution",
        "language": "python",
        "status": "error",
        "duration_ms": 0,
        "error": {"code": "code.raised", "message": "NameError: x"},
        "result": {"stdout": "half"},
    }
    assert "result" not in told["a"]


@pytest.mark.parametrize(
    ("output", "reference", "value"),
    [
        ({"content": [], "structuredContent": {"items": [{"n": 1}]}}, "{{a.items[0].n}}", 1),
        (RawObject(b'{"content":[],"structuredContent":{"x":[true]}}'), "{{a.x}}", [True]),
        (text_result('{"x": {"y": null}}'), "{{a.x}}", {"y": None}),
        (text_result("[1, 2]"), "last: {{a[1]}}", "last: 2"),
        (text_result("plain"), "{{a}}", "plain"),
        (text_result("one", "two"), "{{a}}", "one\ntwo"),
        (text_result("1", "2"), "{{a}}", "1\n2"),
        (text_result("NaN"), "{{a}}", "NaN"),
        (text_result("1e999"), "{{a}}", "1e999"),
        (text_result("[" * 100_000), "<{{a}}>", "<" + "[" * 100_000 + ">"),
        ({"content": [{"type": "image", "data": "aGk="}]}, "{{a.content[0].data}}", "aGk="),
        ({"content": [{"type": "image"}, {"type": "text", "text": "7"}]}, "{{a}}", "7"),
        ({"status": "completed", "tasks": []}, "{{a.status}}", "completed"),
        (None, "{{a}}", None),
    ],
)
async def test_results_are_handed_to_later_tasks(output, reference, value):
    # What earlier tests left is not to be finalized where a deeply nested output leaves no room on the stack.
    gc.collect()
    run = answering(a=output, b=1)
    ended = await Dag().execute(flow(call("b", x=reference), call("a")), run)
    assert ended.status is Status.OK
    assert run.dispatched[1].arguments == {"x": value}
    assert results(ended)["b"]["depends_on"] == ["a"]


async def test_code_and_capabilities_get_results_in_their_inputs():
    run = answering(a={"content": [], "structuredContent": {"n": 1}}, code=5, learned=6)
    code = CodeRun(id="code", language="python", source="print('{{a.n}}')", inputs={"n": "{{a.n}}"})
    learned = CapabilityRun(id="learned", capability_id="c", inputs={"m": "{{code}}"})
    ended = await Dag().execute(flow(learned, code, call("a")), run)
    assert [task.inputs for task in run.dispatched[1:]] == [{"n": 1}, {"m": 5}]
    assert run.dispatched[1].source == "print('{{a.n}}')"
    assert results(ended)["learned"]["capability_id"] == "c"


async def test_arguments_without_references_are_handed_on_as_they_came():
    raw = RawObject(b'{"x":1}')
    run = FakeRun()
    await Dag().execute(flow(ToolCall(id="a", tool="s:a", arguments=raw)), run)
    assert run.dispatched[0].arguments is raw


async def test_escapes_become_plain_text():
    run = FakeRun()
    await Dag().execute(flow(call("a", x=r"\{{name}}")), run)
    assert run.dispatched[0].arguments == {"x": "{{name}}"}


async def test_a_reference_that_finds_nothing_fails_that_task_only():
    run = answering(a={"content": [], "structuredContent": {"items": []}}, c=1)
    ended = await Dag().execute(flow(call("a"), call("b", x="{{a.itmes}}"), call("c"), call("d", "b")), run)
    told = results(ended)
    assert [task.id for task in run.dispatched] == ["a", "c"]
    assert told["b"]["error"]["code"] == "reference.missing"
    assert (
        "{{a.itmes}} finds nothing: no .itmes in a, which is an object with the keys items"
        in told["b"]["error"]["message"]
    )
    assert (told["c"]["status"], told["d"]["status"]) == ("ok", "skipped")


async def test_a_result_that_is_no_json_fails_its_task_only():
    ended = await Dag().execute(flow(call("a"), call("b")), answering(a=RawObject(b"[1]"), b=1))
    told = results(ended)
    assert told["a"]["error"]["code"] == "result.unreadable"
    assert told["b"]["status"] == "ok"


@pytest.mark.parametrize(
    ("tasks", "says"),
    [
        ((call("a", "b"), call("b", "a")), "tasks[0]: tasks that wait for each other never start: a → b → a"),
        ((call("a", x="{{b}}"), call("b", "a")), "a → b → a"),
        ((call("a", "a"),), "tasks[0].depends_on[0]: task 'a' cannot need its own result"),
        ((call("a", "nobody"),), "tasks[0].depends_on[0]: no task here has the id 'nobody'"),
        ((call("a", x="{{nobody.x}}"),), "tasks[0].arguments.x: no task here has the id 'nobody'"),
        ((CodeRun(id="a", language="l", source="", inputs={"x": "{{b}}"}),), "tasks[0].inputs.x: no task here"),
        ((call("a"), call("a")), "tasks[1].id: 'a' is already the id of tasks[0]"),
        ((call("a"), flow(call("b", "a"))), "tasks[1].tasks[0].depends_on[0]: no task here has the id 'a'"),
        ((call("ok"), flow(flow(call("a", "b"), call("b", "a")))), "tasks[1].tasks[0].tasks[0]: tasks that wait"),
    ],
)
async def test_a_workflow_with_mistakes_is_refused_before_anything_runs(tasks, says):
    run = FakeRun()
    ended = await Dag().execute(flow(*tasks), run)
    assert (ended.status, ended.failure.code, ended.output) == (Status.ERROR, "workflow.invalid", None)
    assert says in ended.failure.message
    assert run.dispatched == []


async def test_workflows_nested_without_end_are_refused():
    deep = call("a")
    for i in range(40):
        deep = Workflow(id=f"w{i}", tasks=(deep,))
    ended = await Dag().execute(deep, FakeRun())
    assert "more than 16 workflows within workflows" in ended.failure.message


async def test_an_empty_workflow_ends_well():
    ended = await Dag().execute(flow(), FakeRun())
    assert (ended.status, ended.output) == (Status.OK, {"status": "completed", "tasks": [], "layers": []})


async def test_only_workflows_are_run():
    with pytest.raises(TypeError, match="not ToolCall"):
        await Dag().execute(call("a"), FakeRun())


async def test_tasks_of_every_kind_go_through_the_one_chain():
    tasks = (
        call("a"),
        CodeRun(id="b", language="python", source=""),
        CapabilityRun(id="c", capability_id="x"),
        Workflow(id="d", tasks=(call("e"),)),
    )
    run = FakeRun()
    ended = await Dag().execute(flow(*tasks), run)
    assert tuple(run.dispatched) == tasks
    assert [task.get("type", "tool") for task in results(ended).values()] == [
        "tool", "code_execution", "capability", "workflow",
    ]  # fmt: skip


async def test_progress_is_told_as_tasks_end():
    run = answering(a=1)
    await Dag().execute(flow(call("a"), call("b", "a"), call("c", "b")), run)
    assert run.progressed == [(1, 3, "a: ok"), (2, 3, "b: error"), (3, 3, "c: skipped")]


async def test_cancellation_cancels_the_tasks_under_way_and_starts_no_more():
    began, ended = [], []
    both = asyncio.Event()

    async def answer(task, _run):
        began.append(task.id)
        if len(began) == 2:
            both.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(task.id)

    tasks = flow(*(call(f"t{i}") for i in range(5)))
    running = asyncio.create_task(Dag(Settings(max_parallel=2)).execute(tasks, FakeRun(answer)))
    await asyncio.wait_for(both.wait(), 30)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (began, sorted(ended)) == (["t0", "t1"], ["t0", "t1"])


async def test_a_task_that_swallows_its_cancellation_cannot_stop_that_of_the_workflow():
    began = asyncio.Event()

    async def answer(task, _run):
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return outcome(task.id)

    run = FakeRun(answer)
    running = asyncio.create_task(Dag().execute(flow(call("a"), call("b", "a")), run))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [task.id for task in run.dispatched] == ["a"]


async def test_a_task_cancelled_from_elsewhere_is_an_outcome():
    async def answer(task, _run):
        if task.id == "a":
            raise asyncio.CancelledError
        return outcome(task.id)

    ended = await Dag().execute(flow(call("a"), call("b"), call("c", "a")), FakeRun(answer))
    assert [task["status"] for task in ended.output["tasks"]] == ["cancelled", "ok", "skipped"]


async def test_times_are_aware_and_the_duration_covers_the_tasks():
    async def answer(task, _run):
        await asyncio.sleep(0.02)
        return outcome(task.id)

    ended = await Dag().execute(flow(call("a")), FakeRun(answer))
    assert ended.started_at.tzinfo is UTC
    assert ended.duration_ms >= 20
