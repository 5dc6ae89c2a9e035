"""Work that nobody waits for: answered at once, found again after a crash, never lost in silence."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from pml_background.gateway_process import GatewayProcess
from pml_core.gateway import Gateway
from pml_core.plugins import registry
from pml_executor_dag import Dag, tool
from pml_executor_dbos import Dbos
from pml_executor_dbos import hooks as durable
from pml_hookspecs import ExecutionId, ExecutionQuery, RunOptions, Scope, Session, Status, ToolCall, Workflow
from pml_mcp.wire.client import current_client
from pml_settings.config import Config, GatewaySettings, ServerSettings, Source
from pml_store_sqlite import SqliteStore
from pml_testing.gateway import Client, value_of
from pml_transport_stdio import Stdio

pytestmark = pytest.mark.anyio
EVERYONE = Scope(principals=None)
ADD_HOLD_ADD = {
    "tasks": [
        {"id": "first", "tool": "one:add", "arguments": {"text": "first"}},
        {"id": "hold", "tool": "one:hold", "depends_on": ["first"]},
        {"id": "second", "tool": "one:add", "arguments": {"text": "second"}, "depends_on": ["hold"]},
    ]
}
SOON_S = 120


def config_of(folder: Path) -> Config:
    """One server with a notebook; everything that is kept is kept in ``folder``."""
    script = Path(__file__).with_name("notes_server.py")
    return Config(
        gateway=GatewaySettings(log_level="error", store="sqlite"),
        servers={"one": ServerSettings(command=sys.executable, args=(str(script), str(folder / "notes.txt")))},
        tables={"dbos": {"database": str(folder / "durable.db")}, "sqlite": {"path": str(folder / "history.db")}},
        sources=(Source("test", {"gateway": {"store": "sqlite"}}),),
    )


def found(*, keep: bool) -> list[registry.Record]:
    """The plugins; with ``keep``, those for durable workflows as well."""
    records = [
        registry.provide("pml.transport", "stdio", Stdio),
        registry.provide("pml.store", "sqlite", SqliteStore),
        registry.provide("pml.executor", "dag", Dag),
        registry.provide("pml.plugins", "workflow_tool", tool),
    ]
    if keep:
        records += [
            registry.provide("pml.executor", "dbos", Dbos),
            registry.provide("pml.plugins", "dbos", durable),
        ]
    return records


@asynccontextmanager
async def gateway(folder, *, keep=False):
    """One in this process, and a client of it."""
    async with Gateway(config_of(folder), None, found(keep=keep)) as started:
        await started.servers_tried()
        client = Client(started)
        await client.initialize()
        yield started, client


async def begun(client, plan=None):
    """The id of what runs in the background."""
    told = await client.call("execute_workflow", {"workflow": plan or ADD_HOLD_ADD, "async": True})
    assert value_of(told)["status"] == "pending"
    return ExecutionId(value_of(told)["execution_id"])


async def ended(started, id):
    """The record, once it has ended."""
    async with asyncio.timeout(SOON_S):
        while True:
            record = await started.store.executions.get(id, EVERYONE)
            if record is not None and record.status not in ("pending", "running"):
                return record
            await asyncio.sleep(0.02)


def notes(folder):
    """What the server has written."""
    file = folder / "notes.txt"
    return file.read_text().split() if file.exists() else []


async def written(folder, text):
    """Wait until it is in the notebook."""
    async with asyncio.timeout(SOON_S):
        while text not in notes(folder):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


def go(folder):
    """Let those go on that hold."""
    (folder / "notes.go").touch()


def killed(folder, *, keep, waited=False):
    """Begin in a process of its own, kill that one in the middle, and give the id."""
    plan = {**ADD_HOLD_ADD, "durable": keep}
    words = [
        sys.executable,
        __file__,
        str(folder),
        "keep" if keep else "-",
        json.dumps(plan),
        *(["wait"] if waited else []),
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        told = json.loads(process.stdout.readline())
        while not (folder / "notes.held").exists():
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    return ExecutionId(told["execution_id"])


async def test_the_id_comes_at_once_and_its_row_is_there(tmp_path):
    async with gateway(tmp_path) as (started, client):
        id = await begun(client)
        record = await started.store.executions.get(id, EVERYONE)
        assert record.status in ("pending", "running")
        assert record.kind == "workflow"
        go(tmp_path)
        record = await ended(started, id)
        assert record.status is Status.OK
        assert notes(tmp_path) == ["first", "second"]
        assert [task["status"] for task in record.response["tasks"]] == ["ok"] * 3


async def test_nothing_is_left_behind_of_what_has_ended(tmp_path):
    go(tmp_path)
    async with gateway(tmp_path) as (started, client):
        await ended(started, await begun(client))
        async with asyncio.timeout(SOON_S):
            while (await started.store.documents.find("core.runs")).total:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)


async def test_many_at_once_all_end_and_all_are_found(tmp_path):
    go(tmp_path)
    plan = {"tasks": [{"id": "only", "tool": "one:lines"}]}
    async with gateway(tmp_path) as (started, client):
        ids = await asyncio.gather(*(begun(client, plan) for _ in range(50)))
        records = await asyncio.gather(*(ended(started, id) for id in ids))
        assert len(set(ids)) == 50
        assert {record.status for record in records} == {Status.OK}


async def test_what_a_client_asks_to_be_refused_fails_in_its_record(tmp_path):
    async with gateway(tmp_path) as (started, client):
        id = await begun(client, {"tasks": [{"id": "only", "tool": "one:fail"}]})
        record = await ended(started, id)
        assert record.status is Status.ERROR
        assert "it broke" in str(record.response)


async def test_a_mistake_in_the_plan_is_told_at_once(tmp_path):
    async with gateway(tmp_path) as (started, client):
        told = await client.call("execute_workflow", {"workflow": {"tasks": []}, "async": True})
        assert told["isError"]
        told = await client.call("execute_workflow", {"workflow": ADD_HOLD_ADD, "async": "yes"})
        assert "async" in told["content"][0]["text"]
        assert (await started.store.documents.find("core.runs")).total == 0


async def test_a_durable_one_goes_on_when_its_gateway_was_killed(tmp_path):
    id = killed(tmp_path, keep=True)
    assert notes(tmp_path) == ["first"]
    go(tmp_path)
    async with gateway(tmp_path, keep=True) as (started, _):
        record = await ended(started, id)
        assert record.status is Status.OK, record.failure
        assert notes(tmp_path) == ["first", "second"]


async def test_any_other_is_recorded_as_lost_and_not_repeated(tmp_path):
    id = killed(tmp_path, keep=False)
    go(tmp_path)
    async with gateway(tmp_path) as (started, _):
        record = await ended(started, id)
        assert record.status is Status.ERROR
        assert record.failure.code == "execution.lost"
        assert notes(tmp_path) == ["first"]
        assert (await started.store.documents.find("core.runs")).total == 0


async def test_a_plan_that_somebody_waited_for_does_not_run_for_ever_in_the_history(tmp_path, monkeypatch):
    monkeypatch.setattr("pml_background.executions.SKEW", timedelta())
    id = killed(tmp_path, keep=False, waited=True)
    go(tmp_path)
    async with gateway(tmp_path) as (started, _):
        record = await ended(started, id)
        assert record.failure.code == "execution.lost"
        assert notes(tmp_path) == ["first"]


async def test_a_durable_one_that_somebody_waited_for_is_not_taken_for_lost(tmp_path, monkeypatch):
    monkeypatch.setattr("pml_background.executions.SKEW", timedelta())
    id = killed(tmp_path, keep=True, waited=True)
    go(tmp_path)
    async with gateway(tmp_path, keep=True) as (started, _):
        record = await ended(started, id)
        assert record.status is Status.OK, record.failure
        assert notes(tmp_path) == ["first", "second"]


async def test_a_gateway_that_ends_in_good_order_leaves_durable_work_to_the_next(tmp_path):
    async with gateway(tmp_path, keep=True) as (_, client):
        id = await begun(client)
        await written(tmp_path, "first")
    go(tmp_path)
    async with gateway(tmp_path, keep=True) as (started, _):
        record = await ended(started, id)
        assert record.status is Status.OK, record.failure
        assert notes(tmp_path) == ["first", "second"]


async def test_a_gateway_that_ends_in_good_order_says_what_it_stopped(tmp_path):
    async with gateway(tmp_path) as (_, client):
        id = await begun(client)
        await written(tmp_path, "first")
    async with gateway(tmp_path) as (started, _):
        record = await started.store.executions.get(id, EVERYONE)
        assert record.status is Status.CANCELLED
        assert "was stopped" in record.failure.message


async def test_stopping_one_cancels_it(tmp_path):
    async with gateway(tmp_path) as (started, client):
        id = await begun(client)
        await written(tmp_path, "first")
        assert await started.background.stop(id)
        assert (await ended(started, id)).status is Status.CANCELLED
        assert not await started.background.stop(id)
        go(tmp_path)
        assert notes(tmp_path) == ["first"]


async def test_one_that_is_stopped_before_its_first_step_is_cancelled_all_the_same(tmp_path):
    call = ToolCall(id="call", tool="one:add", arguments={"text": "never"})
    async with gateway(tmp_path) as (started, _):
        id = await started.background.start(call, Session(key="test"), RunOptions())
        assert await started.background.stop(id)
        assert (await ended(started, id)).status is Status.CANCELLED
        assert (await started.store.documents.find("core.runs")).total == 0
        assert notes(tmp_path) == []


async def test_nobody_is_asked_what_no_client_waits_for(tmp_path):
    """The client of the request that began it has its answer; asked on, it would never answer."""
    asked = asyncio.Event()
    async with gateway(tmp_path) as (started, client):

        async def answer(params):
            asked.set()
            return {"action": "accept", "content": {}}

        client.peer.others["elicitation/create"] = answer
        await client.initialize({"elicitation": {}})
        seen = []
        start = started.dispatcher.start_resolved

        async def looks(task, session, asked):
            seen.append(current_client.get())
            return await start(task, session, asked)

        started.dispatcher.start_resolved = looks
        go(tmp_path)
        await ended(started, await begun(client))
        assert seen[0] is not None  # the request that it began with
        assert seen[1:] == [None]


async def test_an_id_that_exists_is_not_begun_again(tmp_path):
    go(tmp_path)
    call = ToolCall(id="call", tool="one:add", arguments={"text": "once"})
    async with gateway(tmp_path) as (started, _):
        id = await started.background.start(call, Session(key="test"), RunOptions())
        await ended(started, id)
        assert await started.background.start(call, Session(key="test"), RunOptions(id=id)) == id
        assert notes(tmp_path) == ["once"]


async def test_a_store_that_cannot_write_begins_with_nothing(tmp_path, monkeypatch):
    async with gateway(tmp_path) as (started, client):

        async def full(*_args, **_more):
            raise OSError("no space left")

        monkeypatch.setattr(type(started.store.executions), "put", full)
        told = await client.call("execute_workflow", {"workflow": ADD_HOLD_ADD, "async": True})
        assert told["isError"]
        assert told["_meta"]["pml/failure"]["code"] == "execution.unrecorded"
        assert (await started.store.documents.find("core.runs")).total == 0
        assert notes(tmp_path) == []


async def test_workflows_inside_others_are_waited_for(tmp_path):
    go(tmp_path)
    inner = Workflow(id="inner", tasks=(ToolCall(id="only", tool="one:lines"),), wait=False)
    async with gateway(tmp_path) as (started, _):
        outcome = await started.dispatcher.start(Workflow(id="outer", tasks=(inner,)), Session(key="test"))
        assert outcome.status is Status.OK
        page = await started.store.executions.find(ExecutionQuery(scope=EVERYONE))
        assert "pending" not in {record.status for record in page.items}


def test_a_process_knows_whether_another_is_gone():
    me = GatewayProcess.current()
    assert not me.is_surely_gone()
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        process.wait()
        gone = GatewayProcess("x", me.machine, process.pid, "1")
    assert gone.is_surely_gone()
    assert not GatewayProcess("x", "elsewhere", process.pid, "1").is_surely_gone()
    assert not GatewayProcess.from_plain("x", {}).is_surely_gone()
    assert GatewayProcess.from_plain("x", me.plain()) == GatewayProcess("x", me.machine, me.pid, me.started)


async def main(folder: Path, keep: bool, plan: str, waited: bool) -> None:  # noqa: FBT001 - of the command line
    """The process to be killed: begin with the plan, print its id, and stay."""
    async with Gateway(config_of(folder), None, found(keep=keep)) as gateway:
        await gateway.servers_tried()
        client = Client(gateway)
        await client.initialize()
        if waited:
            calling = asyncio.ensure_future(client.call("execute_workflow", {"workflow": json.loads(plan)}))
            await written(folder, "first")
            query = ExecutionQuery(scope=EVERYONE, top_level=True)
            (record,) = (await gateway.store.executions.find(query)).items
            # What is listed need not be on the disk yet.
            await gateway.store.executions.put(record)
            print(json.dumps({"execution_id": record.id}), flush=True)
            await calling
        told = await client.call("execute_workflow", {"workflow": json.loads(plan), "async": True})
        print(json.dumps(value_of(told)), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2] == "keep", sys.argv[3], "wait" in sys.argv[4:]))
