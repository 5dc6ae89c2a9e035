from __future__ import annotations

import pytest

from pml_executor_dag import Dag
from pml_hookspecs import Failure, Status, ToolCall, Workflow
from pml_testing.fakes import FakeRun, outcome

pytestmark = pytest.mark.anyio


def call(id_, *depends_on, **arguments):
    return ToolCall(id=id_, tool=f"s:{id_}", arguments=arguments, depends_on=depends_on)


def flow(*tasks):
    return Workflow(id="w", tasks=tasks)


def text_result(text):
    return {"content": [{"type": "text", "text": text}]}


def results(ended):
    return {task["id"]: task for task in ended.output["tasks"]}


def simulating(**outputs):
    async def answer(task, _run):
        return outcome(
            task.id, outputs.get(task.id, text_result(f"Simulated execution of {task.id}")), Status.SIMULATED
        )

    return FakeRun(answer, dry_run=True)


async def test_a_rehearsal_tells_tools_order_and_arguments():
    a = {**text_result("…"), "structuredContent": {"path": "/x"}, "_meta": {"pml/simulated": {"source": "schema"}}}
    run = simulating(a=a)
    ended = await Dag().execute(flow(call("a", q=1), call("b", path="{{a.path}}")), run)
    assert ended.status is Status.SIMULATED
    assert ended.failure is None
    told = ended.output
    assert (told["status"], told["dry_run"], told["layers"]) == ("simulated", True, [["a"], ["b"]])
    assert [(task["tool"], task["arguments"]) for task in told["tasks"]] == [("s:a", {"q": 1}), ("s:b", {"path": "/x"})]
    assert (told["tasks"][0]["result"], told["tasks"][0]["_meta"]) == ({"path": "/x"}, a["_meta"])
    assert all(task["simulated"] for task in told["tasks"])


async def test_a_reference_into_a_made_up_result_is_left_as_it_is_and_told():
    run = simulating()
    ended = await Dag().execute(flow(call("a"), call("b", n="{{a.items[0].id}}", m="{{a}}!")), run)
    told = results(ended)["b"]
    assert ended.status is Status.SIMULATED
    assert told["arguments"] == {"n": "{{a.items[0].id}}", "m": "Simulated execution of a!"}
    (warning,) = told["warnings"]
    assert warning.startswith("{{a.items[0].id}} finds nothing: no .items in a, which is the text")
    assert run.dispatched[1].extra == {"_meta": {"pml/simulated": {"arguments": ["/n", "/m"]}}}


async def test_a_reference_into_a_real_result_must_be_right_in_a_rehearsal_too():
    async def answer(task, _run):
        return outcome(task.id, text_result("really searched"))

    ended = await Dag().execute(flow(call("a"), call("b", n="{{a.x}}")), FakeRun(answer, dry_run=True))
    assert results(ended)["b"]["error"]["code"] == "reference.missing"


async def test_a_real_run_marks_nothing_as_made_up():
    run = FakeRun()
    await Dag().execute(flow(call("a"), call("b", n="{{a}}")), run)
    assert run.dispatched[1].extra == {}


async def test_a_rehearsal_in_which_a_task_fails_has_failed():
    async def answer(task, _run):
        if task.id == "b":
            return outcome(task.id, status=Status.ERROR, failure=Failure("arguments.invalid", "path is missing"))
        return outcome(task.id, status=Status.SIMULATED)

    ended = await Dag().execute(flow(call("a"), call("b"), call("c", "b")), FakeRun(answer, dry_run=True))
    assert (ended.status, ended.output["status"]) == (Status.ERROR, "failed")
    assert [task["status"] for task in ended.output["tasks"]] == ["simulated", "error", "skipped"]
