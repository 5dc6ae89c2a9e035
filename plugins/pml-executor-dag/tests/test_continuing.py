"""Who continues a workflow that waits, and what is kept of it meanwhile."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from pauses import Approver, decide

from pml_executor_dag import Dag, Settings
from pml_executor_dag.pauses.continuation import carry_out, decision_from
from pml_executor_dag.pauses.paused_workflows import take
from pml_hookspecs import (
    Failure,
    InvalidArguments,
    Retry,
    ServerStatus,
    Session,
    Status,
    Step,
    ToolCall,
    ToolFailed,
    Workflow,
)
from pml_testing.fakes import FakeCatalog, FakeRun, entry, outcome

pytestmark = pytest.mark.anyio


class Away:
    """Documents that cannot be read the first time."""

    def __init__(self, documents):
        self._documents, self._away = documents, True

    def __getattr__(self, name):
        return getattr(self._documents, name)

    async def get(self, *where):
        if self._away:
            self._away = False
            raise OSError("no route to the database")
        return await self._documents.get(*where)


@pytest.mark.parametrize(
    ("attempts", "status", "ran"),
    [(1, "failed", ["pay~undo"]), (2, "completed", ["b"])],
)
async def test_a_store_that_is_away_for_a_moment_fails_the_part_alone(make, world, monkeypatch, attempts, status, ran):
    approver = Approver(make, "b")
    here = world(approver)
    paid = make.call("pay", step=Step(compensate=ToolCall(id="", tool="s:undo")))
    part = Workflow(id="n", tasks=(make.call("a"), make.call("b", "a")), step=Step(retry=Retry(attempts=attempts)))
    ended = await here.execute(make.flow(paid, part))
    here.calls.clear()
    approver.approved.add("b")
    away = Away(here.documents)
    monkeypatch.setattr(here.dag._services.store, "documents", away)
    told = await decide(here, ended)
    codes = [task["error"]["code"] for task in told["tasks"] if task.get("error")]
    assert (told["status"], here.ran()) == (status, ran)
    assert codes == ["store.unavailable"] * (attempts == 1)


async def test_abort_undoes_what_ended_in_a_workflow_within(make, world):
    here = world(Approver(make, "b"))
    step = Step(compensate=ToolCall(id="", tool="s:undo"))
    ended = await here.execute(make.flow(Workflow(id="n", tasks=(make.call("a", step=step), make.call("b", "a")))))
    here.calls.clear()
    told = await decide(here, ended, "abort")
    assert (told["status"], here.ran()) == ("failed", ["a~undo"])


async def test_of_two_who_continue_one_runs_it(make, world):
    approver = Approver(make, "b")
    here = world(approver)
    ended = await here.execute(make.flow(make.call("a"), make.call("b", "a")))
    here.calls.clear()
    approver.approved.add("b")
    told = await asyncio.gather(decide(here, ended), decide(here, ended), return_exceptions=True)
    assert [type(one) for one in told].count(InvalidArguments) == 1
    assert here.ran() == ["b"]


async def test_while_it_is_continued_nobody_else_can(make, world):
    approver = Approver(make, "b")
    here = world(approver)
    ended = await here.execute(make.flow(make.call("b")))
    await take(here.documents, ended.output["workflow_id"], here.session)
    with pytest.raises(InvalidArguments, match="is being continued already"):
        await decide(here, ended)


async def test_what_was_continued_says_where_it_waits_now(make, world):
    here = world(Approver(make, "b"))
    ended = await here.execute(make.flow(make.call("a"), make.call("b", "a")))
    later = await decide(here, ended)
    with pytest.raises(InvalidArguments, match=f"was continued, and waits as '{later['workflow_id']}' now"):
        await decide(here, ended)
    here.answer.approved.add("b")
    await decide(here, later)
    with pytest.raises(InvalidArguments, match="is over"):
        await decide(here, later)


async def test_another_principals_workflow_is_not_found(make, world):
    here = world(Approver(make, "b"), principal="ada")
    ended = await here.execute(make.flow(make.call("b")))
    with pytest.raises(InvalidArguments, match="no workflow waits under the id") as theirs:
        await decide(here, ended, session=Session(key="x", principal="bob"))
    with pytest.raises(InvalidArguments) as nobodys:
        await decide(here, {"workflow_id": "nothing"}, session=Session(key="x", principal="bob"))
    assert str(theirs.value).replace(ended.output["workflow_id"], "nothing") == str(nobodys.value)


async def test_it_waits_as_long_as_the_settings_say(make, world):
    here = world(Approver(make, "b"), settings=Settings(keep_s=3600))
    ended = await here.execute(make.flow(make.call("b")))
    left = datetime.fromisoformat(ended.output["expires_at"]) - datetime.now(UTC)
    assert timedelta(minutes=59) < left < timedelta(minutes=61)
    here.documents.expire()
    with pytest.raises(InvalidArguments, match="no workflow waits"):
        await decide(here, ended)


async def test_what_is_over_keeps_nothing_of_what_it_did(make, world):
    here = world(Approver(make, "b"))
    ended = await here.execute(make.flow(make.call("a", secret="s3cret"), make.call("b")))
    here.answer.approved.add("b")
    await decide(here, ended)
    (document,) = here.documents.kept.values()
    assert set(document.value) == {"status", "principal", "part", "goes_on_as"}


async def test_budgets_are_not_filled_up_by_waiting(make, world):
    async def answer(task, _run):
        return make.waits(task) if task.id == "b" else outcome(task.id, {}, cost_usd=0.25)

    here = world(answer)
    tasks = make.flow(make.call("a"), make.call("b", "a"), max_tool_calls=5, max_cost_usd=1.0)
    ended = await here.execute(tasks)
    taken = await take(here.documents, ended.output["workflow_id"], here.session)
    assert (taken.workflow.max_tool_calls, taken.workflow.max_cost_usd) == (3, 0.75)


async def test_where_nothing_can_be_kept_it_says_so(make):
    run = FakeRun(Approver(make, "b"))
    ended = await Dag().execute(make.flow(make.call("b")), run)
    assert ended.status is Status.INPUT_REQUIRED
    assert "workflow_id" not in ended.output
    assert "cannot be continued" in ended.failure.message


async def test_a_workflow_that_nobody_runs_any_more_waits_on(make, world):
    here = world(Approver(make, "b"))
    ended = await here.execute(make.flow(make.call("b")))
    run = FakeRun(lambda task, _run: asyncio.sleep(0, make.failed(task, "executor.missing")))
    decision = decision_from({"workflow_id": ended.output["workflow_id"], "decision": "continue"})
    with pytest.raises(ToolFailed) as caught:
        await carry_out(decision, here.documents, run, here.services.catalog)
    assert caught.value.content["error"]["code"] == "executor.missing"
    here.answer.approved.add("b")
    assert (await decide(here, ended))["status"] == "completed"


async def test_a_workflow_that_ends_badly_when_continued_is_an_error_and_one_that_waits_is_none(make, world):
    here = world(Approver(make, "b", "c", fail={"c"}))
    ended = await here.execute(make.flow(make.call("b"), make.call("c", "b")))
    here.answer.approved.add("b")
    told = await carry_out(
        decision_from({"workflow_id": ended.output["workflow_id"], "decision": "continue"}),
        here.documents, here.run(), here.services.catalog,
    )  # fmt: skip
    assert told["status"] == "input_required"
    here.answer.approved.add("c")
    with pytest.raises(ToolFailed, match="1 of 2 tasks failed: c") as caught:
        await carry_out(
            decision_from({"workflow_id": told["workflow_id"], "decision": "continue"}),
            here.documents, here.run(), here.services.catalog,
        )  # fmt: skip
    assert [task["status"] for task in caught.value.content["tasks"]] == ["ok", "error"]


async def test_new_tasks_with_tools_that_do_not_exist_are_told_and_the_workflow_waits_on(make, world):
    catalog = FakeCatalog([entry("s:a"), entry("s:b")], [ServerStatus(name="s", state="up", tools=2)])
    here = world(Approver(make, "b"), catalog=catalog)
    ended = await here.execute(make.flow(make.call("a"), make.call("b", "a")))
    with pytest.raises(InvalidArguments, match=r"tasks\[0\].tool: server 's' has no tool 's:c'"):
        await decide(here, ended, "replan", tasks=[{"id": "x", "tool": "s:c"}])
    here.answer.approved.add("b")
    assert (await decide(here, ended))["status"] == "completed"


async def test_a_tool_that_is_gone_since_the_workflow_began_is_found_out_by_its_task(make, world):
    statuses = [ServerStatus(name="s", state="up", tools=2)]
    here = world(Approver(make, "b"), catalog=FakeCatalog([entry("s:a"), entry("s:b")], statuses))
    ended = await here.execute(make.flow(make.call("a"), make.call("b", "a")))
    here.services.catalog = FakeCatalog([entry("s:a")], statuses)
    here.answer.approved.add("b")
    assert (await decide(here, ended))["status"] == "completed"


@pytest.mark.parametrize("ends", ["well", "badly", "unknown"])
async def test_an_id_that_is_not_known_goes_to_whoever_keeps_durable_workflows(make, world, ends):
    report = {"status": "completed" if ends == "well" else "failed", "tasks": []}

    async def answer(task, _run):
        if ends == "well":
            return outcome(task.id, make.structured(report))
        output = None if ends == "unknown" else {**make.structured(report), "isError": True}
        failure = Failure("arguments.invalid" if ends == "unknown" else "tool.failed", "there is no durable run")
        return outcome(task.id, output, Status.ERROR, failure=failure)

    here = world(answer, catalog=FakeCatalog([entry("pml:resume_durable_run")]))
    decision = decision_from({"workflow_id": "x", "decision": "continue"})
    going = carry_out(decision, here.documents, here.run(), here.services.catalog)
    if ends == "well":
        assert await going == report
    elif ends == "badly":
        with pytest.raises(ToolFailed) as caught:
            await going
        assert caught.value.content == report
    else:
        with pytest.raises(InvalidArguments, match=r"no workflow waits under the id 'x'.*there is no durable run"):
            await going
    (call,) = here.calls
    assert (call.tool, call.arguments) == ("resume_durable_run", {"run_id": "x", "decision": "continue"})


async def test_new_tasks_for_a_durable_workflow_reach_whoever_keeps_it(make, world):
    async def answer(task, _run):
        return outcome(task.id, make.structured({"status": "completed"}))

    here = world(answer, catalog=FakeCatalog([entry("pml:resume_durable_run")]))
    tasks = [{"id": "x", "tool": "s:c"}]
    decision = decision_from({"workflow_id": "x", "decision": "replan", "tasks": tasks})
    await carry_out(decision, here.documents, here.run(), here.services.catalog)
    assert here.calls[0].arguments == {"run_id": "x", "decision": "replan", "tasks": tasks}


async def test_what_a_durable_run_keeps_is_not_kept_twice(make, world):
    here = world(Approver(make, "b"))
    run = here.run()
    run.durable = True
    ended = await here.dag.execute(make.flow(make.call("a"), make.call("b", "a")), run)
    assert (ended.status, "workflow_id" in ended.output, here.documents.kept) == (Status.INPUT_REQUIRED, False, {})
    assert "goes on with that" in ended.failure.message
