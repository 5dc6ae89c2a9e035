from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pml_hookspecs import (
    CapabilityRun,
    RunOptions,
    Session,
    Status,
    Step,
    ToolCall,
    Workflow,
)
from pml_testing.dispatching import (
    SESSION,
    Simulator,
    Tracer,
    gateway,
    other_call,
    ours,
    plan,
    records,
    tool,
    workflow,
)
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio


# One way through


async def test_children_carry_parent_trace_session_deadline_and_the_intent_above():
    simulator = Simulator()
    async with gateway(wrappers=[simulator], tracer=True) as made:
        deadline = datetime.now(UTC) + timedelta(seconds=50)
        session = Session(key="k", principal="alice", client="tester/1")
        await made.dispatcher.start(
            workflow(intent="mine"), session, RunOptions(deadline=deadline, intent="session's", trigger="manual")
        )
        (_, above), (_, below) = simulator.seen
        assert (above.parent, below.parent) == (None, above.id)
        assert above.trace_id == below.trace_id
        assert (below.parent_span_id, above.parent_span_id) == (above.span_id, None)
        assert above.session is below.session is session
        assert above.deadline == below.deadline == deadline
        assert (above.intent, below.intent) == ("mine", "mine")
        assert {r.trigger for r in await records(made)} == {"manual"}
        spans = Tracer.last.started_
        assert [(s.name, s.kind, s.execution, s.parent_id) for s in spans] == [
            ("workflow", "server", above.id, None),
            ("tools/call", "internal", below.id, above.span_id),
        ]
        assert spans[1].attributes == {"gen_ai.tool.name": "fs:read"}
        assert sorted(e.span.span_id for e in Tracer.last.ended_) == sorted(s.span_id for s in spans)


async def test_two_requests_have_different_traces():
    simulator = Simulator()
    async with gateway(wrappers=[simulator]) as made:
        for _ in range(2):
            await made.dispatcher.start(ToolCall(id="t", tool="fs:read"), SESSION)
        one, other = (run for _, run in simulator.seen)
        assert one.trace_id != other.trace_id
        assert one.id < other.id


async def test_a_childs_progress_is_not_told_as_if_it_were_its_parents():
    simulator, told = Simulator(), []
    async with gateway(wrappers=[simulator]) as made:
        await made.dispatcher.start(workflow(), SESSION, RunOptions(progress=lambda *p: told.append(p)))
        (_, above), (_, below) = simulator.seen
        assert (above.wants_progress, below.wants_progress) == (True, False)
        above.progress(1, 2, "half")
        below.progress(9)
        assert told == [(1, 2, "half")]


async def test_a_kind_that_nobody_runs_is_an_outcome_that_says_what_to_do():
    async with running({}) as made:
        for task, kind in ((workflow(), "workflow"), (CapabilityRun(id="c", capability_id="x"), "capability")):
            result = await made.dispatcher.start(task, SESSION)
            assert (result.status, result.failure.code) == (Status.ERROR, "executor.missing")
            assert kind in result.failure.message
            assert "install" in result.failure.message


# Dry run


@pytest.mark.parametrize("configured", ["real", "dry_run"])
@pytest.mark.parametrize("asked", [None, True, False])
@pytest.mark.parametrize("kind", ["call", "workflow"])
async def test_the_call_wins_over_the_configuration(configured, asked, kind):
    simulator, server = Simulator(), ScriptedServer(["read"])
    async with gateway(
        {"fs": server}, tools=[tool("run_it", task=plan)], wrappers=[simulator], execution_mode=configured
    ) as made:
        client = Client(made)
        meta = {} if asked is None else {"_meta": {"pml/dry_run": asked}}
        name, arguments = ("fs__read", {}) if kind == "call" else ("run_it", {"tool": "fs:read"})
        await client.call(name, arguments, **meta)
        rehearsed = configured == "dry_run" if asked is None else asked
        assert {run.dry_run for _, run in simulator.seen} == {rehearsed}
        assert len(server.calls) == (0 if rehearsed else 1)
        assert {r.dry_run for r in await records(made)} == {rehearsed}


@pytest.mark.parametrize("configured", ["real", "dry_run"])
@pytest.mark.parametrize("argument", [None, True, False])
@pytest.mark.parametrize("asked", [None, True, False])
async def test_a_workflows_own_argument_wins_over_the_configuration_and_over_its_request(configured, argument, asked):
    server = ScriptedServer(["read"])
    wrappers = [Simulator()]
    async with gateway(
        {"fs": server}, tools=[tool("run_it", task=plan)], wrappers=wrappers, execution_mode=configured
    ) as made:
        meta = {} if asked is None else {"_meta": {"pml/dry_run": asked}}
        await Client(made).call("run_it", {"tool": "fs:read", "dry_run": argument}, **meta)
        said = [value for value in (argument, asked) if value is not None]
        rehearsed = said[0] if said else configured == "dry_run"
        assert len(server.calls) == (0 if rehearsed else 1)


@pytest.mark.parametrize("inner", [None, False, True])
@pytest.mark.parametrize("outer", [None, False, True])
async def test_a_rehearsal_stays_one_all_the_way_down(inner, outer):
    server = ScriptedServer(["read"])
    async with gateway({"fs": server}, wrappers=[Simulator()]) as made:
        nested = Workflow(id="o", tasks=(workflow(dry_run=inner),), dry_run=outer)
        await made.dispatcher.start(nested, SESSION)
        assert len(server.calls) == (0 if outer or inner else 1)


# Names, aliases, tools that stand for tasks


@pytest.mark.parametrize("name", ["fs:read", "fs__read"])
async def test_the_chain_sees_the_canonical_id_whatever_was_written(name):
    simulator = Simulator()
    async with gateway(wrappers=[simulator]) as made:
        await made.dispatcher.start(ToolCall(id="t", tool=name), SESSION)
        assert [task.tool for task, _ in simulator.seen] == ["fs:read"]
        assert [r.target for r in await records(made)] == ["fs:read"]


async def test_a_meta_tool_is_called_by_its_name_or_an_alias():
    async with gateway(tools=[tool("ours", call=ours, aliases=("mine",), listed=False)]) as made:
        client = Client(made)
        for name in ("ours", "mine", "pml:ours"):
            assert (await client.call(name, {"a": 1}))["structuredContent"] == {"given": {"a": 1}}
        assert {r.target for r in await records(made)} == {"pml:ours"}


async def test_a_tool_that_stands_for_a_task_becomes_that_task_under_its_aliases_too():
    server = ScriptedServer(["read"])
    async with gateway({"fs": server}, tools=[tool("run_it", task=plan, aliases=("execute_dag",))]) as made:
        for name in ("run_it", "execute_dag"):
            result = await made.dispatcher.start(
                ToolCall(id="x", tool=name, arguments={"tool": "fs:read"}, depends_on=("n",)), SESSION
            )
            assert (result.task_id, result.output) == ("x", [Status.OK])
        assert len(server.calls) == 2
        assert [r.kind for r in await records(made)] == ["workflow", "tool"] * 2


async def test_a_tool_that_stands_for_a_call_hands_on_arguments_and_the_requests_other_members():
    server = ScriptedServer(["read"])
    async with gateway({"fs": server}, tools=[tool("call_it", task=other_call)]) as made:
        await Client(made).call("call_it", {"tool": "fs__read", "arguments": {"p": 1}}, _meta={"k": "v"})
        assert server.params == [{"name": "read", "arguments": {"p": 1}, "_meta": {"k": "v"}, "x-mine": 1}]
        assert [(r.kind, r.target) for r in await records(made)] == [("tool", "fs:read")]


@pytest.mark.parametrize(("above", "answered"), [(Step(), "own"), (Step(select="above"), "above")])
async def test_a_task_says_what_of_it_is_answered_unless_the_call_in_whose_place_it_is_does(above, answered):
    def selects(arguments):
        return ToolCall(id="t", tool="fs:read", step=Step(select="own", timeout_s=1.0))

    async with gateway({"fs": ScriptedServer(["read"])}, tools=[tool("call_it", task=selects)]) as made:
        call = ToolCall(id="x", tool="call_it", step=above)
        ran, _ = await made.dispatcher.start_resolved(call, SESSION, RunOptions())
        assert ran.step == Step(select=answered)


async def test_a_tool_that_stands_for_a_task_may_stand_for_another_such_tool():
    server = ScriptedServer(["read"])
    async with gateway({"fs": server}, tools=[tool("call_it", task=other_call), tool("run_it", task=plan)]) as made:
        await Client(made).call("call_it", {"tool": "run_it", "arguments": {"tool": "fs:read"}})
        assert len(server.calls) == 1


async def test_arguments_that_no_task_can_be_made_of_are_a_result_that_says_so_and_a_record():
    async with gateway(tools=[tool("run_it", task=plan)]) as made:
        result = await Client(made).call("run_it", {})
        assert result["isError"] is True
        assert result["content"][0]["text"] == "run_it: say which tool"
        assert result["_meta"]["pml/failure"]["code"] == "arguments.invalid"
        ((record,)) = await records(made)
        assert (record.status, record.failure.code) == (Status.ERROR, "arguments.invalid")


@pytest.mark.parametrize("makes", [lambda arguments: 1 / 0, lambda arguments: None])
async def test_a_tool_that_fails_to_make_its_task_is_a_fault_and_not_an_exception(makes):
    async with gateway(tools=[tool("broken", task=makes)]) as made:
        result = await made.dispatcher.start(ToolCall(id="t", tool="broken"), SESSION)
        assert result.status is Status.ERROR
        assert result.failure.code.endswith(".fault")
        assert [r.status for r in await records(made)] == [Status.ERROR]


async def test_a_tool_that_stands_for_itself_is_refused():
    async with gateway(tools=[tool("loop", task=lambda arguments: ToolCall(id="", tool="loop"))]) as made:
        result = await made.dispatcher.start(ToolCall(id="t", tool="loop"), SESSION)
        assert (result.status, result.failure.code) == (Status.ERROR, "task.too_deep")


async def test_a_filter_forbids_a_tool_that_stands_for_a_task_too():
    server = ScriptedServer(["read"])

    def keeps(entry, session):
        return entry.id != "pml:run_it"

    async with gateway({"fs": server}, tools=[tool("run_it", task=plan)], filters=[keeps]) as made:
        result = await made.dispatcher.start(ToolCall(id="t", tool="run_it", arguments={"tool": "fs:read"}), SESSION)
        assert (result.status, server.calls) == (Status.DENIED, [])
