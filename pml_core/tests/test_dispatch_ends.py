from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from pml_core.kernel.dispatch import DEEPEST
from pml_hookspecs import (
    CodeRun,
    Phase,
    RawObject,
    RpcError,
    RunOptions,
    Status,
    ToolCall,
    Workflow,
)
from pml_testing.dispatching import (
    SESSION,
    Code,
    Tracer,
    gateway,
    hangs,
    records,
    tool,
    workflow,
)
from pml_testing.gateway import ScriptedLink, ScriptedServer, running

pytestmark = pytest.mark.anyio


# Depth, time, cancellation


async def test_tasks_within_tasks_end_at_a_limit():
    async def again(task, run):
        return await run.dispatch(CodeRun(id="c", language="x", source="again"))

    Code.answers = {"again": again}
    async with gateway() as made:
        result = await made.dispatcher.start(CodeRun(id="c", language="x", source="again"), SESSION)
        assert (result.status, result.failure.code) == (Status.ERROR, "task.too_deep")
        depths = [r for r in await records(made) if r.kind == "code"]
        assert len(depths) == DEEPEST + 2
        assert sum(r.failure is not None and r.failure.code == "task.too_deep" for r in depths) == len(depths)


async def test_a_deadline_that_passes_ends_a_task_as_timed_out():
    Code.answers = {"hang": hangs}
    async with gateway() as made:
        soon = datetime.now(UTC) + timedelta(seconds=0.05)
        result = await made.dispatcher.start(
            CodeRun(id="c", language="x", source="hang"), SESSION, RunOptions(deadline=soon)
        )
        assert (result.status, result.failure.code, result.failure.retryable) == (
            Status.TIMED_OUT,
            "task.timed_out",
            True,
        )
        assert [r.status for r in await records(made)] == [Status.TIMED_OUT]


async def test_a_deadline_in_the_past_runs_nothing():
    Code.answers = {"hang": hangs}
    async with gateway() as made:
        past = datetime.now(UTC) - timedelta(seconds=1)
        result = await made.dispatcher.start(
            CodeRun(id="c", language="x", source="hang"), SESSION, RunOptions(deadline=past)
        )
        assert result.status is Status.TIMED_OUT


async def test_a_deadline_that_passes_ends_a_servers_tool_call():
    async def never(name, arguments):
        await asyncio.Event().wait()

    async with gateway({"fs": ScriptedServer(["read"], never)}) as made:
        soon = datetime.now(UTC) + timedelta(seconds=0.05)
        async with asyncio.timeout(30):
            result = await made.dispatcher.start(ToolCall(id="t", tool="fs:read"), SESSION, RunOptions(deadline=soon))
        assert result.status is Status.TIMED_OUT


@pytest.mark.parametrize("where", ["own tool", "wrapper"])
async def test_a_deadline_that_passes_ends_a_tool_call_wherever_it_hangs(where):
    class Approval:
        phase = Phase.APPROVE

        async def __call__(self, task, run, call_next):
            await asyncio.Event().wait()

    wrappers = [Approval()] if where == "wrapper" else []
    async with gateway(tools=[tool("slow", call=hangs)], wrappers=wrappers) as made:
        soon = datetime.now(UTC) + timedelta(seconds=0.05)
        try:
            async with asyncio.timeout(30):
                result = await made.dispatcher.start(ToolCall(id="t", tool="slow"), SESSION, RunOptions(deadline=soon))
        except TimeoutError:
            pytest.fail("the gateway did not end the call at its deadline")
        assert result.status is Status.TIMED_OUT


async def test_what_is_cancelled_is_recorded_as_cancelled_all_the_way_down():
    called = asyncio.Event()

    async def never(name, arguments):
        called.set()
        await asyncio.Event().wait()

    async with gateway({"fs": ScriptedServer(["read"], never)}, tracer=True) as made:
        request = asyncio.ensure_future(made.dispatcher.start(workflow(), SESSION))
        await called.wait()
        assert [(r.kind, r.status) for r in await records(made)] == [("workflow", "running")]
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        assert [(r.kind, r.status) for r in await records(made)] == [
            ("workflow", Status.CANCELLED),
            ("tool", Status.CANCELLED),
        ]
        assert [e.status for e in Tracer.last.ended_] == [Status.CANCELLED] * 2


async def test_a_tracer_that_fails_changes_nothing_and_is_heard_once():
    class Broken(Tracer):
        def started(self, span):
            raise ValueError("started")

        def ended(self, ended):
            raise ValueError("ended")

    plugins = {("tracer", "log"): Broken}
    async with running({"fs": ScriptedServer(["read"])}, plugins=plugins) as made:
        results = [await made.dispatcher.start(ToolCall(id="t", tool="fs:read"), SESSION) for _ in range(2)]
        assert [r.status for r in results] == [Status.OK] * 2


# What is left in the store


async def test_a_record_says_who_asked_for_what_when_and_how_it_ended():
    async with gateway() as made:
        before = datetime.now(UTC)
        result = await made.dispatcher.start(
            ToolCall(id="t", tool="fs:read", arguments={"path": "/x"}),
            SESSION,
            RunOptions(intent="to look", trigger="schedule"),
        )
        (record,) = await records(made)
        assert (record.kind, record.target, record.parent) == ("tool", "fs:read", None)
        assert (record.principal, record.agent, record.trigger, record.intent) == (
            "alice",
            "client:tester",
            "schedule",
            "to look",
        )
        assert (record.status, record.failure, record.dry_run) == (Status.OK, None, False)
        assert before <= record.started_at <= datetime.now(UTC)
        assert record.duration_ms == result.duration_ms >= 0
        assert record.request == {"path": "/x"}
        assert record.response == result.output
        assert record.tool_calls == ()


async def test_a_workflows_record_has_its_tasks_and_the_tools_called_in_it():
    async with gateway() as made:
        first, second = (
            ToolCall(id="a", tool="fs__read", arguments={"n": 1}),
            ToolCall(id="b", tool="none:none", depends_on=("a",)),
        )
        tasks = (first, second)
        await made.dispatcher.start(Workflow(id="w", tasks=tasks), SESSION)
        above, *below = await records(made)
        assert (above.kind, above.target, above.status) == ("workflow", "", Status.ERROR)
        assert above.request["tasks"][0] == {
            "id": "a",
            "type": "tool",
            "target": "fs__read",
            "depends_on": [],
            "request": {"n": 1},
        }
        assert above.tool_calls == ("fs:read", "none:none")
        assert above.response == ["ok", "error"]
        assert [(r.parent, r.status) for r in below] == [(above.id, Status.OK), (above.id, Status.ERROR)]


async def test_a_servers_own_error_is_recorded_verbatim():
    async def refuses(name, arguments):
        raise RpcError(-32050, "no such file", {"path": "/x"})

    async with gateway({"fs": ScriptedServer(["read"], refuses)}) as made:
        await made.dispatcher.start(ToolCall(id="t", tool="fs:read"), SESSION)
        (record,) = await records(made)
        assert (record.status, record.failure.code, record.failure.message) == (
            Status.ERROR,
            "tool.refused",
            "no such file",
        )
        assert record.failure.details == {"rpc": {"code": -32050, "message": "no such file", "data": {"path": "/x"}}}


@pytest.mark.parametrize(
    "output", [{1, 2}, object(), datetime(2026, 1, 1, tzinfo=UTC), {"at": datetime(2026, 1, 1, tzinfo=UTC)}]
)
async def test_an_executor_whose_output_is_not_json_has_failed_and_nothing_is_raised(output):
    Code.answers = {"odd": output}
    async with gateway() as made:
        result = await made.dispatcher.start(CodeRun(id="c", language="x", source="odd"), SESSION)
        if not isinstance(output, set):  # encode() writes a set as a list
            assert (result.status, result.failure.code) == (Status.ERROR, "executor.fault")
        assert len(await records(made)) == 1


async def test_the_arguments_of_a_call_reach_the_server_as_they_were_written(monkeypatch):
    sent: list[bytes] = []
    request = ScriptedLink.request

    async def spied(self, method, params, *, timeout_s):
        sent.append(RawObject.of(params).raw)
        return await request(self, method, params, timeout_s=timeout_s)

    monkeypatch.setattr(ScriptedLink, "request", spied)
    text = b'{"z":1,"a":12345678901234567890123,"f":1.0,"e":1e2,"n":null,"u":"\\u00e9\\ud83d","a2":[ 1,2 ]}'
    async with gateway() as made:
        await made.dispatcher.start(ToolCall(id="t", tool="fs:read", arguments=RawObject(text)), SESSION)
    assert sent[-1] == b'{"name":"read","arguments":' + text + b"}"
