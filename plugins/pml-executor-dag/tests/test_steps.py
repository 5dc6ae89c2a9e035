"""How a workflow treats its tasks: conditions, items, retries, limits, what a failure does."""

from __future__ import annotations

import asyncio

import pytest

from pml_executor_dag import Dag, Settings
from pml_hookspecs import CapabilityRun, CodeRun, Failure, Retry, Status, Step, ToolCall, Workflow
from pml_testing.fakes import FakeRun, outcome

pytestmark = pytest.mark.anyio
AT_ONCE = Retry(attempts=3, delay_s=0)


def codes(ended):
    return {task["id"]: task["error"]["code"] for task in ended.output["tasks"] if "error" in task}


async def test_a_task_runs_only_when_its_condition_holds(make):
    async def answer(task, _run):
        return outcome(task.id, make.structured({"n": 3}))

    run = FakeRun(answer)
    ended = await Dag().execute(
        make.flow(
            make.call("a"),
            make.call("many", step=Step(when="a.n > `2`")),
            make.call("few", step=Step(when="a.n <= `2`")),
            make.call("after", "few", x="{{few.n}}", y="{{few}}!"),
        ),
        run,
    )
    assert ended.status is Status.OK
    assert make.statuses(ended) == {"a": "ok", "many": "ok", "few": "skipped", "after": "ok"}
    few = make.results(ended)["few"]
    assert few["error"] == {"code": "condition.false", "message": "Not run: its condition does not hold: a.n <= `2`"}
    assert few["depends_on"] == ["a"]
    assert {task.id: task.arguments for task in run.dispatched}["after"] == {"x": None, "y": "null!"}


async def test_a_condition_that_cannot_be_evaluated_fails_its_task(make):
    ended = await Dag().execute(make.flow(make.call("a"), make.call("b", step=Step(when="abs(a) > `1`"))), FakeRun())
    assert codes(ended) == {"b": "condition.failed"}
    assert ended.status is Status.ERROR


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (Step(when="nobody.n"), "tasks[1].when: no task here has the id 'nobody'"),
        (Step(when="b.n"), "tasks[1].when: task 'b' cannot need its own result"),
        (Step(when="a[["), "tasks[1].when: is no JMESPath expression"),
        (Step(for_each="{{nobody}}"), "tasks[1].for_each: no task here has the id 'nobody'"),
        (Step(for_each=["{{c.d}}"]), "tasks[1].for_each[0]: no task here has the id 'c'"),
        (
            Step(compensate=ToolCall(id="u", tool="t", arguments={"x": "{{c}}"})),
            "tasks[1].compensate.arguments.x: no task here has the id 'c'",
        ),
        (
            Step(compensate=Workflow(id="u", tasks=(ToolCall(id="c", tool="t", depends_on=("d",)),))),
            "tasks[1].compensate.tasks[0].depends_on[0]: no task here has the id 'd'",
        ),
    ],
)
async def test_mistakes_in_how_tasks_are_treated_are_found_before_anything_runs(make, step, says):
    run = FakeRun()
    ended = await Dag().execute(make.flow(make.call("a"), make.call("b", step=step)), run)
    assert ended.failure.code == "workflow.invalid"
    assert says in ended.failure.message
    assert run.dispatched == []


@pytest.mark.parametrize("id_", ["a/b", "a#2", "a[0]", "a~undo"])
async def test_ids_that_children_could_have_are_refused(make, id_):
    ended = await Dag().execute(make.flow(make.call(id_)), FakeRun())
    assert "must not have any of / # [ ~" in ended.failure.message


async def test_a_plan_cannot_raise_the_limit_of_the_gateway(make):
    under_way, most = 0, 0

    async def answer(task, _run):
        nonlocal under_way, most
        under_way, most = under_way + 1, max(most, under_way + 1)
        await asyncio.sleep(0)
        under_way -= 1
        return outcome(task.id)

    tasks = make.flow(*(make.call(f"t{i}") for i in range(10)), max_parallel=9)
    await Dag(Settings(max_parallel=2)).execute(tasks, FakeRun(answer))
    assert most == 2


async def test_code_gets_results_of_what_it_needs_under_their_ids(make):
    async def answer(task, _run):
        return outcome(task.id, make.structured({"n": 1}) if isinstance(task, ToolCall) else 5)

    run = FakeRun(answer)
    code = CodeRun(id="code", language="python", source="", depends_on=("a", "b"), inputs={"b": "mine", "c": "{{a.n}}"})
    learned = CapabilityRun(id="learned", capability_id="x", depends_on=("code",))
    await Dag().execute(make.flow(make.call("a"), make.call("b"), code, learned), run)
    assert run.dispatched[2].inputs == {"a": {"n": 1}, "b": "mine", "c": 1}
    assert run.dispatched[3].inputs == {"code": 5}


async def test_code_finds_null_where_a_result_was_allowed_to_fail(make):
    async def answer(task, _run):
        return make.failed(task) if task.id == "a" else outcome(task.id)

    run = FakeRun(answer)
    code = CodeRun(id="code", language="python", source="", depends_on=("a",))
    await Dag().execute(make.flow(make.call("a", step=Step(on_error="continue")), code), run)
    assert run.dispatched[1].inputs == {"a": None}


@pytest.mark.parametrize(
    ("on_error", "after", "later", "status"),
    [
        ("fail", "skipped", "skipped", Status.ERROR),
        ("skip", "skipped", "skipped", Status.OK),
        ("continue", "ok", "ok", Status.OK),
    ],
)
async def test_what_a_failure_does(make, on_error, after, later, status):
    async def answer(task, _run):
        return make.failed(task) if task.id == "a" else outcome(task.id, make.structured({}))

    run = FakeRun(answer)
    tasks = make.flow(
        make.call("a", step=Step(on_error=on_error)),
        make.call("after", x="{{a.deep[0].path}}"),
        make.call("later", "after"),
    )
    ended = await Dag().execute(tasks, run)
    assert make.statuses(ended) == {"a": "error", "after": after, "later": later}
    assert ended.status is status
    assert ended.output["status"] == ("completed" if status is Status.OK else "failed")
    if after == "ok":
        assert run.dispatched[1].arguments == {"x": None}


async def test_what_is_skipped_is_not_run_though_failures_of_it_are_allowed(make):
    async def answer(task, _run):
        return make.failed(task)

    tasks = make.flow(make.call("a"), make.call("b", "a", step=Step(on_error="continue")), make.call("c", "b"))
    ended = await Dag().execute(tasks, FakeRun(answer))
    assert make.statuses(ended) == {"a": "error", "b": "skipped", "c": "skipped"}


async def test_a_task_is_tried_again_under_a_path_of_its_own(make):
    async def answer(task, _run):
        return make.failed(task) if len(run.dispatched) < 3 else outcome(task.id, make.structured({"n": 1}))

    run = FakeRun(answer)
    ended = await Dag().execute(make.flow(make.call("a", step=Step(retry=AT_ONCE)), make.call("b", x="{{a.n}}")), run)
    assert [task.id for task in run.dispatched] == ["a", "a#2", "a#3", "b"]
    assert make.results(ended)["a"] == {
        "id": "a", "tool": "s:a", "status": "ok", "duration_ms": 0, "attempts": 3, "result": {"n": 1},
    }  # fmt: skip


async def test_the_last_attempt_decides(make):
    run = FakeRun(lambda task, _run: asyncio.sleep(0, make.failed(task, message=f"{len(run.dispatched)}")))
    ended = await Dag().execute(make.flow(make.call("a", step=Step(retry=AT_ONCE))), run)
    assert make.results(ended)["a"]["error"]["message"] == "3"
    assert [o.id for o in run.dispatched] == ["a", "a#2", "a#3"]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (Status.DENIED, "policy.denied"),
        (Status.CANCELLED, "task.cancelled"),
        (Status.ERROR, "arguments.invalid"),
        (Status.ERROR, "budget.tool_calls"),
        (Status.ERROR, "tool.unknown"),
    ],
)
async def test_what_cannot_get_better_is_not_tried_again(make, status, code):
    run = FakeRun(lambda task, _run: asyncio.sleep(0, make.failed(task, code, status)))
    await Dag().execute(make.flow(make.call("a", step=Step(retry=AT_ONCE))), run)
    assert len(run.dispatched) == 1


async def test_a_task_that_waits_to_be_tried_again_takes_no_place(make):
    failed_once = asyncio.Event()

    async def answer(task, _run):
        if task.id == "a":
            failed_once.set()
            return make.failed(task)
        return outcome(task.id)

    run = FakeRun(answer)
    again = Step(retry=Retry(attempts=2, delay_s=0.2, most_delay_s=0.2))
    ended = await Dag().execute(make.flow(make.call("a", step=again), make.call("b"), max_parallel=1), run)
    assert [task.id for task in run.dispatched] == ["a", "b", "a#2"]
    assert ended.status is Status.OK


async def test_the_wait_doubles_up_to_its_limit_and_varies_below_it():
    from pml_executor_dag.jobs import Job, delay_s

    task = ToolCall(id="a", tool="t", step=Step(retry=Retry(attempts=20, delay_s=1, most_delay_s=5)))
    bad = outcome("a", status=Status.ERROR, failure=Failure("tool.failed", ""))
    for attempt, full in [(1, 1), (2, 2), (3, 4), (4, 5), (19, 5)]:
        waits = {delay_s(Job(task, "a", attempt=attempt), bad) for _ in range(50)}
        assert all(full / 2 <= wait <= full for wait in waits)
        assert len(waits) > 1
    assert delay_s(Job(task, "a", attempt=20), bad) is None


async def test_an_attempt_that_takes_too_long_is_ended_and_told_apart_from_an_error(make):
    ended_by = []

    async def answer(task, _run):
        if task.id == "wrong":
            return make.failed(task)
        try:
            await asyncio.Event().wait()
        finally:
            ended_by.append(task.id)

    run = FakeRun(answer)
    late = make.call("late", step=Step(timeout_s=0.02, retry=Retry(attempts=2, delay_s=0)))
    ended = await asyncio.wait_for(Dag().execute(make.flow(late, make.call("wrong")), run), 30)
    assert make.statuses(ended) == {"late": "timed_out", "wrong": "error"}
    assert codes(ended) == {"late": "task.timed_out", "wrong": "tool.failed"}
    assert ended_by == ["late", "late#2"]
    assert "No result in 0.02 s" in make.results(ended)["late"]["error"]["message"]


async def test_an_attempt_that_a_journal_found_cut_off_is_tried_again_as_one_that_took_too_long(make):
    async def answer(task, _run):
        return make.failed(task, "task.cancelled", Status.CANCELLED) if task.id == "a" else outcome(task.id)

    run = FakeRun(answer)
    again = Retry(attempts=2, delay_s=0)
    ended = await Dag().execute(make.flow(make.call("a", step=Step(timeout_s=5, retry=again))), run)
    assert ([task.id for task in run.dispatched], ended.status) == (["a", "a#2"], Status.OK)


async def test_a_workflow_that_takes_too_long_is_ended_and_tells_what_it_did(make):
    async def answer(task, _run):
        if task.id not in ("quick", "each[0]"):
            await asyncio.Event().wait()
        return outcome(task.id, make.structured({"done": True}))

    each = make.call("each", step=Step(for_each=["quick", "slow"]))
    tasks = make.flow(make.call("quick"), make.call("slow"), each, make.call("after", "slow"), timeout_s=0.05)
    ended = await asyncio.wait_for(Dag().execute(tasks, FakeRun(answer)), 30)
    assert make.statuses(ended) == {"quick": "ok", "slow": "timed_out", "each": "timed_out", "after": "skipped"}
    assert make.results(ended)["each"]["result"] == [{"done": True}, None]
    assert (ended.status, ended.failure.code, ended.output["status"]) == (
        Status.TIMED_OUT,
        "workflow.timed_out",
        "timed_out",
    )
    assert ended.failure.details == {"timed_out": ["slow", "each"], "skipped": ["after"]}
    assert ended.failure.retryable


async def test_a_cancelled_workflow_waits_for_no_retry(make):
    failed = asyncio.Event()

    async def answer(task, _run):
        failed.set()
        return make.failed(task)

    tasks = make.flow(make.call("a", step=Step(retry=Retry(attempts=2, delay_s=60, most_delay_s=60))))
    running = asyncio.create_task(Dag().execute(tasks, FakeRun(answer)))
    await failed.wait()
    running.cancel()
    async with asyncio.timeout(30):
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_what_a_workflow_cost_is_what_its_tasks_cost(make):
    async def answer(task, _run):
        cost = {"a": 0.25, "b": 0.5}.get(task.id)
        return outcome(task.id, make.structured({}), cost_usd=cost)

    ended = await Dag().execute(make.flow(make.call("a"), make.call("b"), make.call("c")), FakeRun(answer))
    assert ended.cost_usd == 0.75
    assert (await Dag().execute(make.flow(make.call("c")), FakeRun(answer))).cost_usd is None


async def test_a_rehearsal_does_not_trust_conditions_and_items_that_are_made_up(make):
    async def answer(task, _run):
        return outcome(task.id, make.structured({"n": 1}), Status.SIMULATED)

    run = FakeRun(answer, dry_run=True)
    tasks = make.flow(
        make.call("a"),
        make.call("b", step=Step(when="a.n > `5`")),
        make.call("c", step=Step(for_each="{{a.files}}"), path="{{item.name}}", n="{{index}}"),
    )
    ended = await Dag().execute(tasks, run)
    told = make.results(ended)
    assert ended.status is Status.SIMULATED
    assert [task.id for task in run.dispatched] == ["a", "b", "c[0]"]
    assert told["b"]["warnings"] == ["when: a is simulated; rehearsed as if the condition held."]
    assert told["c"]["warnings"] == ["for_each: the items are not known from a simulated result; rehearsed once."]
    assert told["c"]["arguments"] == [{"path": "{{item.name}}", "n": "{{index}}"}]
    assert run.dispatched[2].extra == {"_meta": {"pml/simulated": {"arguments": ["/path", "/n"]}}}


async def test_a_rehearsal_tries_nothing_twice_and_undoes_nothing(make):
    run = FakeRun(lambda task, _run: asyncio.sleep(0, make.failed(task)), dry_run=True)
    step = Step(retry=AT_ONCE, compensate=ToolCall(id="u", tool="s:u"))
    ended = await Dag().execute(make.flow(make.call("a", step=step)), run)
    assert ([task.id for task in run.dispatched], ended.output["status"]) == (["a"], "failed")
