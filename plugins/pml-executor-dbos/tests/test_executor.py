"""Durable workflows on DBOS, as the gateway runs them."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from typing import Any

import psycopg
import pytest
from durable_kit import Gateway, PlanRun, Step, call, left, moved, plan

from pml_executor_dbos import Dbos, Settings
from pml_executor_dbos.ledger import Ledger, RunState
from pml_executor_dbos.presence import Presence
from pml_executor_dbos.run_tools import resume
from pml_hookspecs import (
    ExecutionId,
    Failure,
    InvalidArguments,
    Outcome,
    Run,
    RunOptions,
    Session,
    Status,
    Task,
    ToolFailed,
    Workflow,
    replace,
)
from pml_kit.plain import to_plain
from pml_testing.executor import CLEAN_UP_S, ContractRun, ExecutorContract
from pml_testing.fakes import FakeServices, outcome

pytestmark = pytest.mark.anyio
SOON_S = 120.0


async def run_is(ledger: Ledger, run: str, *states: RunState) -> Any:
    async with asyncio.timeout(SOON_S):
        while (row := await ledger.run(run)) is None or row.state not in states:  # noqa: ASYNC110 - rows tell nobody
            await asyncio.sleep(0.01)
    return row


async def ticking(gateway: Gateway) -> None:
    while True:
        await gateway.executor.engine.tick()
        await asyncio.sleep(0.05)


def test_importing_the_plugin_imports_nothing_heavy() -> None:
    code = (
        "import sys, pml_executor_dbos, pml_executor_dbos.hooks\n"
        "sys.exit(str(sorted({'dbos', 'sqlalchemy', 'psycopg', 'sqlite3', 'asyncio'} & set(sys.modules))))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.stderr.strip() == "[]"


async def test_a_plan_runs_and_what_it_came_to_is_kept(gateway: Gateway) -> None:
    run = PlanRun("r1")
    ended = await gateway.executor.execute(plan(), run)
    assert run.known == set()
    assert (ended.status, ended.output) == (Status.OK, {"a": "ok", "b": "ok", "c": "ok"})
    ledger = gateway.executor.engine.ledger
    row = await ledger.run("r1")
    assert row is not None
    assert (row.state, row.outcome) == ("ended", ended)
    assert [(task.path, task.state) for task in await ledger.tasks("r1")] == [(id_, "ended") for id_ in "abc"]


async def test_the_same_run_again_gives_the_same_outcome_and_does_nothing(gateway: Gateway) -> None:
    first = await gateway.executor.execute(plan(), PlanRun("r1"))
    again = PlanRun("r1")
    assert await gateway.executor.execute(plan(), again) == first
    assert again.dispatched == []


async def test_progress_and_questions_go_to_the_client_that_waits(gateway: Gateway) -> None:
    async def asking(task: Task, run: Run) -> Outcome:
        run.progress(1, 3, task.id)
        return outcome(task.id, dict(await run.ask("elicitation/create", {"message": task.id})))

    run = PlanRun("r1", asking)
    run.replies = [{"action": "accept"}] * 3
    await gateway.executor.execute(plan(), run)
    assert [params["message"] for _, params in run.asked] == ["a", "b", "c"]
    assert [text for _, _, text in run.progressed] == ["a", "b", "c"]


async def test_a_rehearsal_is_not_kept(gateway: Gateway) -> None:
    ended = await gateway.executor.execute(plan(), PlanRun("r1", dry_run=True))
    assert ended.status is Status.OK
    assert not gateway.executor.is_up


async def test_a_durable_workflow_inside_another_is_part_of_it(gateway: Gateway) -> None:
    async def answer(task: Task, run: Run) -> Outcome:
        if task.id != "inner":
            return outcome(task.id)
        inside = PlanRun("r2", parent=run.id)
        return await gateway.executor.execute(plan(), inside)

    ended = await gateway.executor.execute(plan(call("inner")), PlanRun("r1", answer))
    assert ended.status is Status.OK
    assert [run.id for run in await gateway.executor.engine.ledger.runs()] == ["r1"]


async def test_a_plan_that_fails_ends(gateway: Gateway) -> None:
    async def fails(task: Task, run: Run) -> Outcome:
        return outcome(task.id, status=Status.ERROR, failure=Failure("tool.failed", "no"))

    ended = await gateway.executor.execute(plan(), PlanRun("r1", fails))
    assert ended.status is Status.ERROR
    assert (await run_is(gateway.executor.engine.ledger, "r1", "ended")).outcome == ended


async def test_a_fault_ends_the_run_and_is_told(gateway: Gateway) -> None:
    class Broken(PlanRun):
        async def dispatch(self, task: Task, **how: Any) -> Outcome:
            raise ZeroDivisionError

    ended = await gateway.executor.execute(plan(), Broken("r1"))
    assert ended.failure is not None
    assert ended.failure.code == "executor.fault"
    assert "exception" in [line[0] for line in gateway.log.lines]
    await run_is(gateway.executor.engine.ledger, "r1", "ended")


async def test_what_waits_is_paused_and_goes_on_when_resumed(gateway: Gateway) -> None:
    asked: list[str] = []

    async def answer(task: Task, run: Run) -> Outcome:
        if task.id == "b" and not asked:
            asked.append("b")
            return outcome("b", status=Status.INPUT_REQUIRED, failure=Failure("approval.required", "look"))
        return outcome(task.id)

    gateway.how = answer
    engine = gateway.executor.engine
    run = PlanRun("r1", answer)
    assert (await gateway.executor.execute(plan(call("a"), call("b")), run)).status is Status.INPUT_REQUIRED
    assert (await run_is(engine.ledger, "r1", "paused")).outcome is not None
    assert await engine.ledger.ready("r1")
    looking = asyncio.ensure_future(ticking(gateway))
    ended = await run_is(engine.ledger, "r1", "ended")
    looking.cancel()
    assert ended.outcome.status is Status.OK
    assert [task.id for task in run.dispatched] == ["a", "b"]
    assert [task.id for task in gateway.runs[0].dispatched] == ["b"]


async def test_a_client_goes_on_with_its_run_and_gets_the_rest_of_it(gateway: Gateway) -> None:
    waits = {"b", "c"}

    async def answer(task: Task, run: Run) -> Outcome:
        if task.id in waits:
            return outcome(task.id, status=Status.INPUT_REQUIRED, failure=Failure("approval.required", "look"))
        return outcome(task.id)

    gateway.how = answer
    ada = Session(key="k", principal="ada")
    ended = await gateway.executor.execute(plan(), PlanRun("r1", answer, session=ada))
    assert isinstance(ended.output, dict)
    assert ended.output["workflow_id"] == "r1"
    assert 'resume_durable_run {"run_id": "r1", "decision": "continue"}' in ended.output["how"]
    assert ended.failure is not None
    assert ended.failure.details["workflow_id"] == "r1"
    asked = {"run_id": "r1", "decision": "continue"}
    with pytest.raises(InvalidArguments, match="there is no durable run"):
        await resume(asked, PlanRun("x", session=Session(key="k", principal="eve")), gateway.executor, "system")
    with pytest.raises(InvalidArguments, match="can be continued, or cancelled with pml runs cancel"):
        await resume({**asked, "decision": "abort"}, PlanRun("x", session=ada), gateway.executor, "system")
    waits.discard("b")
    both = await asyncio.gather(
        *(resume(asked, PlanRun("x", session=ada), gateway.executor, "system") for _ in range(2)),
        return_exceptions=True,
    )
    (told,) = [one for one in both if isinstance(one, dict)]
    (refused,) = [one for one in both if isinstance(one, InvalidArguments)]
    assert "is under way; only what is paused" in str(refused)
    assert (told["a"], told["b"], told["workflow_id"]) == ("ok", "ok", "r1")
    waits.clear()
    assert await resume(asked, PlanRun("x", session=ada), gateway.executor, "system") == dict.fromkeys("abc", "ok")
    assert [task.id for run in gateway.runs for task in run.dispatched] == ["b", "c", "c"]
    with pytest.raises(InvalidArguments, match="run r1 is ended"):
        await resume(asked, PlanRun("x", session=ada), gateway.executor, "system")


async def test_a_run_that_ends_badly_when_gone_on_with_is_an_error(gateway: Gateway) -> None:
    ends = [Status.INPUT_REQUIRED, Status.ERROR]

    async def answer(task: Task, run: Run) -> Outcome:
        return outcome(task.id, status=ends.pop(0), failure=Failure("tool.failed", "no"))

    gateway.how = answer
    await gateway.executor.execute(plan(call("a")), PlanRun("r1", answer))
    with pytest.raises(ToolFailed, match="no") as caught:
        await resume({"run_id": "r1"}, PlanRun("x"), gateway.executor, "system")
    assert caught.value.content == {"a": "error"}


async def test_without_durable_runs_there_is_none_to_go_on_with_and_nothing_is_made(sqlite: Settings) -> None:
    dbos = Dbos(sqlite, FakeServices())
    for made, says in ((dbos, "there is no durable run"), (None, "by another executor")):
        with pytest.raises(InvalidArguments, match=says):
            await resume({"run_id": "r1"}, PlanRun("x"), made, "system")
    with pytest.raises(InvalidArguments, match="run_id must be"):
        await resume({"run_id": 3}, PlanRun("x"), dbos, "system")
    assert sqlite.file is not None
    assert not sqlite.file.exists()


@pytest.mark.parametrize("state", ["running", "ended", "cancelled"])
async def test_who_waits_for_a_run_that_another_gateway_has_got_is_told(gateway: Gateway, state: RunState) -> None:
    async def never(task: Task, run: Run) -> Outcome:
        return await asyncio.get_running_loop().create_future()

    running = asyncio.ensure_future(gateway.executor.execute(plan(), PlanRun("r1", never)))
    ledger = gateway.executor.engine.ledger
    async with asyncio.timeout(SOON_S):
        while not await ledger.tasks("r1"):  # noqa: ASYNC110 - rows tell nobody
            await asyncio.sleep(0.01)
    other = Presence(gateway.settings, "other")
    other.hold()
    if state == "cancelled":
        assert await ledger.cancel("r1")
    else:
        theirs = outcome("elsewhere", "theirs") if state == "ended" else None
        moved(gateway.settings, "r1", "SUCCESS" if theirs else "PENDING", "other", theirs)
    looking = asyncio.ensure_future(ticking(gateway))
    told = await asyncio.wait_for(running, SOON_S)
    looking.cancel()
    other.release()
    code = None if told.failure is None else told.failure.code
    assert (told.task_id, code) == (
        "plan",
        {"running": "durable.lost", "ended": None, "cancelled": "durable.cancelled"}[state],
    )


def left_by_the_dead(settings: Settings, task: Workflow, *steps: Step) -> None:
    """A run of a gateway that is gone: some tasks ended, one begun."""
    session = Session(key="k", principal="ada", scopes=frozenset({"a", "b"}))
    left(settings, "r1", task, steps, request={"task": to_plain(task), "session": to_plain(session), "intent": "see"})


async def test_a_dead_workers_run_is_taken_over_and_goes_on_for_whom_it_was(
    settings: Settings, gateway: Gateway
) -> None:
    left_by_the_dead(settings, plan(), ("ended", "a"))
    await gateway.executor.engine.start()
    looking = asyncio.ensure_future(ticking(gateway))
    ended = await run_is(gateway.executor.engine.ledger, "r1", "ended")
    looking.cancel()
    assert ended.outcome.status is Status.OK
    (run,) = gateway.runs
    assert [task.id for task in run.dispatched] == ["b", "c"]
    assert run.known == {"~resumed"}, "whoever schedules it is to refuse no plan of which something has run"
    assert (run.session.principal, run.session.scopes) == ("ada", {"a", "b"})
    assert gateway.asked == [RunOptions(id=ExecutionId("r1"), intent="see", dry_run=False, trigger="mcp")]


async def test_a_task_in_doubt_is_not_run_and_the_run_says_so(settings: Settings, gateway: Gateway) -> None:
    left_by_the_dead(settings, plan(), ("ended", "a"), ("started", "b"))
    await gateway.executor.engine.start()
    looking = asyncio.ensure_future(ticking(gateway))
    paused = await run_is(gateway.executor.engine.ledger, "r1", "paused")
    looking.cancel()
    assert paused.outcome.status is Status.INPUT_REQUIRED
    assert paused.outcome.failure.code == "durable.in_doubt"
    assert [one["path"] for one in paused.outcome.output["in_doubt"]] == ["b"]
    assert gateway.runs[0].dispatched == []


async def test_a_task_that_may_be_repeated_is(settings: Settings, gateway: Gateway) -> None:
    left_by_the_dead(settings, plan(call("a"), call("b", "s:again")), ("ended", "a"))
    await gateway.executor.engine.start()
    looking = asyncio.ensure_future(ticking(gateway))
    await run_is(gateway.executor.engine.ledger, "r1", "ended")
    looking.cancel()
    assert [task.id for task in gateway.runs[0].dispatched] == ["b"]


async def test_a_plan_that_cannot_be_read_any_more_ends_the_run(settings: Settings, gateway: Gateway) -> None:
    left(settings, "r1", request={"task": {"kind": "future"}, "session": {"key": "k"}, "intent": ""})
    await gateway.executor.engine.start()
    looking = asyncio.ensure_future(ticking(gateway))
    ended = await run_is(gateway.executor.engine.ledger, "r1", "ended")
    looking.cancel()
    assert ended.outcome.failure.code == "executor.fault"


async def test_a_run_is_cancelled_from_elsewhere(settings: Settings, gateway: Gateway) -> None:
    began = asyncio.Event()

    async def never(task: Task, run: Run) -> Outcome:
        began.set()
        return await asyncio.get_running_loop().create_future()

    running = asyncio.ensure_future(gateway.executor.execute(plan(), PlanRun("r1", never)))
    await began.wait()
    elsewhere = Ledger(settings)
    assert await elsewhere.cancel("r1")
    await elsewhere.close()
    looking = asyncio.ensure_future(ticking(gateway))
    ended = await asyncio.wait_for(running, SOON_S)
    looking.cancel()
    assert (ended.status, ended.failure.code) == (Status.CANCELLED, "durable.cancelled")


async def test_a_request_that_is_taken_back_cancels_the_run(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pml_executor_dbos.engine.GRACE_S", 0.05)
    began, stopped = asyncio.Event(), asyncio.Event()

    async def never(task: Task, run: Run) -> Outcome:
        began.set()
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            stopped.set()

    running = asyncio.ensure_future(gateway.executor.execute(plan(), PlanRun("r1", never)))
    await began.wait()
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    await asyncio.wait_for(stopped.wait(), SOON_S)
    await run_is(gateway.executor.engine.ledger, "r1", "cancelled")


async def test_the_gateways_end_lets_tasks_end_and_leaves_the_rest_to_the_next(settings: Settings) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def slow(task: Task, run: Run) -> Outcome:
        began.set()
        await go_on.wait()
        return outcome(task.id)

    gateway = Gateway(settings)
    run = PlanRun("r1", slow)
    running = asyncio.ensure_future(gateway.executor.execute(plan(), run))
    await began.wait()
    running.cancel()  # as every request is
    ending = asyncio.ensure_future(gateway.executor.close())
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.wait([running, ending])
    assert [task.id for task in run.dispatched] == ["a"]
    ledger = Ledger(settings)
    row = await ledger.run("r1")
    assert row is not None
    assert row.state == "running"
    assert [(task.path, task.state) for task in await ledger.tasks("r1")] == [("a", "ended")]
    await ledger.close()

    following = Gateway(settings)
    await following.executor.engine.start()
    looking = asyncio.ensure_future(ticking(following))
    await run_is(following.executor.engine.ledger, "r1", "ended")
    looking.cancel()
    assert [task.id for task in following.runs[0].dispatched] == ["b", "c"]
    await following.executor.close()


async def test_the_event_loop_keeps_its_own_threads(gateway: Gateway) -> None:
    await gateway.executor.execute(plan(), PlanRun("r1"))
    await gateway.executor.close()
    assert await asyncio.to_thread(lambda: 7) == 7


async def test_old_runs_are_forgotten_by_both(sqlite: Settings) -> None:
    gateway = Gateway(sqlite)
    await gateway.executor.execute(plan(), PlanRun("r1"))
    assert await gateway.executor.engine.ledger.prune(-1) == ["r1"]
    assert await gateway.executor.engine.ledger.runs() == []
    await gateway.executor.close()


async def test_nothing_but_a_workflow_is_run(sqlite: Settings) -> None:
    with pytest.raises(TypeError, match="ToolCall"):
        await Dbos(sqlite, FakeServices()).execute(call("a"), PlanRun("r1"))


class DurableRun(ContractRun):
    """As the contract's, with workflows inside that come to what their tasks do."""

    async def dispatch(self, task: Task, *, journal: Any = None) -> Outcome:
        if not isinstance(task, Workflow):
            return await super().dispatch(task)
        now = datetime.now(UTC)
        ended = dict(task.known)
        for each in task.tasks:
            if each.id not in ended:
                perform = partial(super().dispatch, each)
                ended[each.id] = await journal(each.id, each, perform)
        bad = [one for one in ended.values() if not one.status.good]
        waits = [one for one in bad if one.status is Status.INPUT_REQUIRED]
        failure = Failure("workflow.failed", str(bad[0].failure)) if bad else None
        status = Status.INPUT_REQUIRED if waits else Status.ERROR if bad else Status.OK
        told = {"tasks": [str(one.status) for one in ended.values()]}
        return replace(outcome(task.id, told, status, failure=failure), started_at=now)


class OwnRun:
    """Like another run, under an id of its own."""

    def __init__(self, like: DurableRun, id_: str) -> None:
        self._like, self.id = like, id_

    def __getattr__(self, name: str) -> Any:
        return getattr(self._like, name)


class RunOfItsOwn:
    """The executor, with each execution a run of its own, as the gateway has it."""

    handles, durable = Dbos.handles, Dbos.durable

    def __init__(self, executor: Dbos) -> None:
        self._executor, self._number = executor, 0

    async def execute(self, task: Task, run: Any) -> Outcome:
        self._number += 1
        return await self._executor.execute(task, OwnRun(run, f"run{self._number}"))  # type: ignore[arg-type]


class TestContract(ExecutorContract):
    """With a run for each execution."""

    @pytest.fixture
    def run(self) -> ContractRun:
        return DurableRun()

    @pytest.fixture
    async def executor(self, sqlite: Settings, monkeypatch: pytest.MonkeyPatch) -> Any:
        monkeypatch.setattr("pml_executor_dbos.engine.GRACE_S", 0.05)
        made = Dbos(sqlite, FakeServices())
        yield RunOfItsOwn(made)
        await made.close()

    async def test_cancellation_propagates_and_cleans_up_in_2_s(
        self, executor: Any, run: Any, endless_task: Task, under_way: Any
    ) -> None:
        """At once, and what runs a moment later: the gateway may be about to end, and then it goes on."""
        running = asyncio.ensure_future(executor.execute(endless_task, run))
        await asyncio.wait_for(under_way(), SOON_S)
        running.cancel()
        await asyncio.wait([running], timeout=CLEAN_UP_S)
        assert running.cancelled()
        async with asyncio.timeout(CLEAN_UP_S):
            while run.under_way:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)


async def test_a_run_of_the_earlier_tables_is_not_begun_again(settings: Settings) -> None:
    statements = (
        "CREATE TABLE pml_run (id TEXT PRIMARY KEY, state TEXT NOT NULL)",
        "INSERT INTO pml_run VALUES ('left', 'running'), ('done', 'ended')",
    )
    if settings.file is None:
        with psycopg.connect(settings.url) as connection:
            for statement in statements:
                connection.execute(statement)
    else:
        with closing(sqlite3.connect(settings.file)) as file, file:
            for statement in statements:
                file.execute(statement)
    gateway = Gateway(settings)
    try:
        run = PlanRun(ExecutionId("left"))
        refused = await gateway.executor.execute(plan(call("a")), run)
        assert (refused.failure.code, run.dispatched) == ("durable.earlier_version", [])
        new = await gateway.executor.execute(plan(call("a")), PlanRun(ExecutionId("new")))
        assert new.status is Status.OK
    finally:
        await gateway.executor.close()
        if settings.file is None:
            with psycopg.connect(settings.url) as connection:
                connection.execute("DROP TABLE pml_run")
