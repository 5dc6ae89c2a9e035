from __future__ import annotations

import asyncio
import types
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest

from pml_core.dispatch import DEEPEST
from pml_hookspecs import (
    CapabilityRun,
    CodeRun,
    ExecutionQuery,
    InvalidArguments,
    MetaTool,
    Phase,
    RawObject,
    RpcError,
    Scope,
    Session,
    Status,
    ToolCall,
    Workflow,
    hookimpl,
)
from pml_testing.fakes import outcome
from pml_testing.gateway import Client, ScriptedLink, ScriptedServer, running

pytestmark = pytest.mark.anyio
EVERYONE = Scope(principals=None)
SESSION = Session(key="k", principal="alice", client="tester/1", intent="")


class InOrder:
    """Runs a workflow's tasks one after the other."""

    handles = frozenset({Workflow})
    runs: list[Any]

    def __init__(self, settings=None, services=None):
        type(self).runs = []

    async def execute(self, task, run):
        self.runs.append(run)
        results = [await run.dispatch(node) for node in task.tasks]
        bad = next((r for r in results if not r.status.good), None)
        status = Status.OK if bad is None else bad.status
        return outcome(task.id, [r.status for r in results], status, failure=None if bad is None else bad.failure)


class Code:
    """Answers with whatever the source says in ``answers``."""

    handles = frozenset({CodeRun, CapabilityRun})
    answers: ClassVar[dict[str, Any]] = {}

    def __init__(self, settings=None, services=None):
        pass

    async def execute(self, task, run):
        answer = self.answers[task.source]
        return await answer(task, run) if callable(answer) else outcome(task.id, answer)


class Simulator:
    """Answers tool calls of rehearsals itself; keeps every run it sees."""

    phase = Phase.SUBSTITUTE

    def __init__(self):
        self.seen: list[tuple[Any, Any]] = []

    async def __call__(self, task, run, call_next):
        self.seen.append((task, run))
        if run.dry_run and isinstance(task, ToolCall):
            return outcome(task.id, {"content": []}, Status.SIMULATED)
        return await call_next(task, run)


class Tracer:
    """Keeps spans."""

    def __init__(self, settings=None, services=None):
        self.started_, self.ended_ = [], []
        Tracer.last = self

    def started(self, span):
        self.started_.append(span)

    def ended(self, ended):
        self.ended_.append(ended)

    async def flush(self):
        return None


def workflow(tool: str = "fs:read", *, dry_run: bool | None = None, intent: str = "") -> Workflow:
    return Workflow(id="w", tasks=(ToolCall(id="a", tool=tool),), dry_run=dry_run, intent=intent)


def plan(arguments) -> Workflow:
    if "tool" not in arguments:
        raise InvalidArguments("run_it: say which tool")
    return workflow(arguments["tool"], dry_run=arguments.get("dry_run"), intent=arguments.get("intent", ""))


def other_call(arguments) -> ToolCall:
    return ToolCall(id="", tool=arguments["tool"], arguments=arguments.get("arguments", {}), extra={"x-mine": 1})


def tool(name: str, **options) -> MetaTool:
    return MetaTool(definition={"name": name, "inputSchema": {"type": "object"}}, **options)


async def ours(arguments, run):
    return {"given": dict(arguments)}


def hooks(*tools: MetaTool, wrappers=(), filters=()) -> types.SimpleNamespace:
    made = types.ModuleType("made")
    made.pml_meta_tools = hookimpl(lambda services: tools)
    made.pml_wrap_executor = hookimpl(lambda services: wrappers)
    made.pml_filter_tools = hookimpl(lambda services: filters)
    return made


def gateway(servers=None, *, tools=(), wrappers=(), filters=(), tracer=False, **options):
    plugins: dict[tuple[str, str], Any] = {("executor", "in_order"): InOrder, ("executor", "code"): Code}
    plugins["hooks", "made"] = hooks(*tools, wrappers=wrappers, filters=filters)
    if tracer:
        plugins["tracer", "log"] = Tracer
    return running({"fs": ScriptedServer(["read"])} if servers is None else servers, plugins=plugins, **options)


async def records(made):
    page = await made.store.executions.find(ExecutionQuery(scope=EVERYONE, limit=100))
    return sorted(page.items, key=lambda r: r.id)


# One way through


@pytest.mark.seed("DRY-18")
async def test_children_carry_parent_trace_session_deadline_and_the_intent_above():
    simulator = Simulator()
    async with gateway(wrappers=[simulator], tracer=True) as made:
        deadline = datetime.now(UTC) + timedelta(seconds=50)
        session = Session(key="k", principal="alice", client="tester/1")
        await made.dispatcher.start(
            workflow(intent="mine"), session, deadline=deadline, intent="session's", trigger="manual"
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
        await made.dispatcher.start(workflow(), SESSION, progress=lambda *p: told.append(p))
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


@pytest.mark.seed("DRY-10")
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


@pytest.mark.seed("DRY-10")
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


@pytest.mark.seed("DRY-9")
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


@pytest.mark.seed("GAP-24")
async def test_a_tool_that_stands_for_a_task_becomes_that_task_under_its_aliases_too():
    server = ScriptedServer(["read"])
    async with gateway({"fs": server}, tools=[tool("run_it", task=plan, aliases=("execute_dag",))]) as made:
        for name in ("run_it", "execute_dag"):
            result = await made.dispatcher.start(
                ToolCall(id="x", tool=name, arguments={"tool": "fs:read"}, needs=("n",)), SESSION
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


@pytest.mark.seed("GAP-3")
async def test_a_filter_forbids_a_tool_that_stands_for_a_task_too():
    server = ScriptedServer(["read"])

    def keeps(entry, session):
        return entry.id != "pml:run_it"

    async with gateway({"fs": server}, tools=[tool("run_it", task=plan)], filters=[keeps]) as made:
        result = await made.dispatcher.start(ToolCall(id="t", tool="run_it", arguments={"tool": "fs:read"}), SESSION)
        assert (result.status, server.calls) == (Status.DENIED, [])


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


async def hangs(task, run):
    await asyncio.Event().wait()


@pytest.mark.seed("DRY-22")
async def test_a_deadline_that_passes_ends_a_task_as_timed_out():
    Code.answers = {"hang": hangs}
    async with gateway() as made:
        soon = datetime.now(UTC) + timedelta(seconds=0.05)
        result = await made.dispatcher.start(CodeRun(id="c", language="x", source="hang"), SESSION, deadline=soon)
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
        result = await made.dispatcher.start(CodeRun(id="c", language="x", source="hang"), SESSION, deadline=past)
        assert result.status is Status.TIMED_OUT


async def test_a_deadline_that_passes_ends_a_servers_tool_call():
    async def never(name, arguments):
        await asyncio.Event().wait()

    async with gateway({"fs": ScriptedServer(["read"], never)}) as made:
        soon = datetime.now(UTC) + timedelta(seconds=0.05)
        async with asyncio.timeout(5):
            result = await made.dispatcher.start(ToolCall(id="t", tool="fs:read"), SESSION, deadline=soon)
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
            async with asyncio.timeout(2):
                result = await made.dispatcher.start(ToolCall(id="t", tool="slow"), SESSION, deadline=soon)
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
            ToolCall(id="t", tool="fs:read", arguments={"path": "/x"}), SESSION, intent="to look", trigger="schedule"
        )
        (record,) = await records(made)
        assert (record.kind, record.target, record.parent) == ("tool", "fs:read", None)
        assert (record.principal, record.agent, record.trigger, record.intent) == (
            "alice",
            "tester",
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
        tasks = (ToolCall(id="a", tool="fs__read", arguments={"n": 1}), ToolCall(id="b", tool="fs:none", needs=("a",)))
        await made.dispatcher.start(Workflow(id="w", tasks=tasks), SESSION)
        above, *below = await records(made)
        assert (above.kind, above.target, above.status) == ("workflow", "", Status.ERROR)
        assert above.request["tasks"][0] == {
            "id": "a",
            "type": "tool",
            "target": "fs__read",
            "needs": [],
            "request": {"n": 1},
        }
        assert above.tool_calls == ("fs:read", "fs:none")
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
