"""A plan that was rehearsed runs as it was rehearsed, or not at all."""

from __future__ import annotations

import pytest
from plans_kit import workflow_from

from pml_executor_dag import Dag, tool
from pml_executor_dag.pauses.agreement import REHEARSAL
from pml_executor_dag.pauses.plan_digests import changes, digest_of, parts_of
from pml_hookspecs import (
    CapabilityRun,
    CodeRun,
    InvalidArguments,
    Offer,
    Phase,
    Retry,
    Status,
    Step,
    ToolCall,
    Workflow,
    hookimpl,
    replace,
)
from pml_kit.offers import SUGGESTER, Suggestion
from pml_testing.dispatching import hooks
from pml_testing.fakes import FakeCatalog, entry, outcome
from pml_testing.gateway import Client, ScriptedServer, running, value_of

pytestmark = pytest.mark.anyio

CATALOG = FakeCatalog([entry("s:read"), entry("s:write"), entry("other:tool")])
A = ToolCall(id="a", tool="s:read", arguments={"n": 1, "deep": {"x": [1, 2]}})
B = ToolCall(id="b", tool="s:write", arguments={"text": "{{a}}"}, depends_on=("a",))
CODE = CodeRun(id="c", language="python", source="return await tools.other.tool()", inputs={"q": 1})
INNER = Workflow(id="i", tasks=(ToolCall(id="x", tool="s:read"),))
PLAN = Workflow(id="workflow", tasks=(A, B, CODE, INNER))


def with_task(task, plan=PLAN):
    return replace(plan, tasks=tuple(task if one.id == task.id else one for one in plan.tasks))


def digest(plan, catalog=CATALOG):
    return digest_of(parts_of(plan, catalog))


def changed(plan, catalog=CATALOG):
    return changes(parts_of(PLAN, CATALOG), parts_of(plan, catalog))


CHANGES = {
    "task 'a': its arguments": with_task(replace(A, arguments={"n": 2, "deep": {"x": [1, 2]}})),
    "task 'b': which tool it calls": with_task(replace(B, tool="s:read")),
    "task 'b': what it depends on": with_task(replace(B, depends_on=())),
    "task 'b': its options": with_task(replace(B, step=Step(retry=Retry(attempts=2)))),
    "task 'c': what it runs": with_task(replace(CODE, source="return await tools.other.tool(1)")),
    "task 'c': its arguments": with_task(replace(CODE, inputs={"q": True})),
    "task 'i/x': which tool it calls": with_task(replace(INNER, tasks=(ToolCall(id="x", tool="s:write"),))),
    "task 'd' is new": replace(PLAN, tasks=(*PLAN.tasks, CapabilityRun(id="d", capability_id="x"))),
    "task 'c' is gone": replace(PLAN, tasks=(A, B, INNER)),
    "task 'a~undo' is new": with_task(replace(A, step=Step(compensate=ToolCall(id="u", tool="s:write")))),
    "the limits of the plan, or the order of its tasks": replace(PLAN, max_parallel=1),
}


@pytest.mark.parametrize("what", CHANGES)
def test_whatever_changes_in_a_plan_changes_its_digest_and_is_told(what):
    assert digest(CHANGES[what]) != digest(PLAN)
    assert what in changed(CHANGES[what])


@pytest.mark.parametrize(
    "same",
    [
        replace(PLAN, dry_run=True, intent="why"),
        replace(PLAN, id="other"),
        with_task(replace(A, tool="s__read")),
        with_task(replace(A, arguments={"deep": {"x": [1.0, 2]}, "n": 1.0})),
    ],
)
def test_what_changes_nothing_leaves_the_digest(same):
    assert digest(same) == digest(PLAN)
    assert changed(same) == []


def test_a_tool_that_is_defined_otherwise_changes_the_digest_of_plans_that_call_it():
    read = FakeCatalog([entry("s:read", "new"), entry("s:write"), entry("other:tool")])
    assert changed(PLAN, read) == [
        "task 'a': the definition of the tool s:read",
        "task 'i/x': the definition of the tool s:read",
    ]
    other = FakeCatalog([entry("s:read"), entry("s:write"), entry("other:tool", "new")])
    assert changed(PLAN, other) == ["task 'c': the definitions of tools that its code may call"]
    gone = FakeCatalog([entry("s:read"), entry("other:tool")])
    assert changed(PLAN, gone) == ["task 'b': the definition of the tool s:write"]
    more = FakeCatalog([*CATALOG, entry("s:more")])
    assert changed(PLAN, more) == []


def test_code_that_says_which_tools_it_may_call_is_bound_to_all_of_these():
    plan = with_task(replace(CODE, tools=("s:*",)))
    before, more = parts_of(plan, CATALOG), FakeCatalog([*CATALOG, entry("s:more")])
    assert changes(before, parts_of(plan, more)) == ["task 'c': the definitions of tools that its code may call"]


def test_long_lists_of_changes_are_cut():
    before = parts_of(PLAN, CATALOG)
    many = Workflow(id="w", tasks=tuple(ToolCall(id=f"n{i}", tool="s:read") for i in range(40)))
    told = changes(before, parts_of(many, CATALOG))
    assert (len(told), told[0], told[-1]) == (11, "task 'n0' is new", "and 36 more")


@pytest.mark.parametrize("given", ["", "abc", "A" * 64, 5, None])
def test_a_plan_digest_that_is_none_is_refused_before_anything_runs(given):
    with pytest.raises(InvalidArguments, match=r"plan_digest: (is none|must be a string)"):
        workflow_from({"workflow": {"tasks": [{"id": "a", "tool": "s:t"}]}, "plan_digest": given})


def test_a_rehearsal_may_have_mistakes_in_the_order_of_its_tasks_of_which_it_tells():
    circle = [{"id": "a", "tool": "s:t", "depends_on": ["b"]}, {"id": "b", "tool": "s:t", "depends_on": ["a"]}]
    assert len(workflow_from({"workflow": {"tasks": circle}, "dry_run": True}).tasks) == 2
    for given in ({"dry_run": False}, {}, {"dry_run": True, "intent": 5}):
        with pytest.raises(InvalidArguments):
            workflow_from({"workflow": {"tasks": circle}, **given})


class Rehearses:
    """Simulates everything."""

    phase = Phase.SUBSTITUTE

    async def __call__(self, task, run, call_next):
        if not run.dry_run or isinstance(task, Workflow):
            return await call_next(task, run)
        return outcome(task.id, {"content": [], "structuredContent": {"made": "up"}}, Status.SIMULATED)


def gateway(server, suggests=None):
    plugins = {
        ("executor", "dag"): Dag,
        ("hooks", "workflow_tool"): tool,
        ("hooks", "wrappers"): hooks(wrappers=(Rehearses(),)),
    }
    if suggests is not None:
        plugins["hooks", "suggests"] = suggests
    return running({"s": server}, plugins=plugins)


TASKS = [
    {"id": "a", "tool": "s:read", "arguments": {"n": 1}},
    {"id": "b", "tool": "s:write", "arguments": {"text": "{{a}}"}},
]
REQUEST = {"workflow": {"tasks": TASKS}, "intent": "copy"}


async def ask(client, **more):
    answer = await client.call("execute_workflow", {**REQUEST, **more})
    return answer if answer.get("isError") else value_of(answer)


async def test_simulate_review_run():
    async with gateway(ScriptedServer(["read", "write"])) as started:
        client = Client(started)
        await client.initialize()
        rehearsed = await ask(client, dry_run=True)
        assert (await ask(client, dry_run=True))["plan_digest"] == rehearsed["plan_digest"]
        assert "plan_digest" in rehearsed["how"]
        ran = await ask(client, dry_run=False)
        assert (ran["status"], "plan_digest" in ran) == ("completed", False)
        agreed = await ask(client, dry_run=False, plan_digest=rehearsed["plan_digest"])
        assert agreed["status"] == "completed"
        assert REHEARSAL not in str(agreed)


@pytest.mark.parametrize("name", ["execute_workflow", "execute_dag"])
async def test_a_plan_that_is_not_the_rehearsed_one_is_refused_with_what_changed(name):
    server = ScriptedServer(["read", "write"])
    async with gateway(server) as started:
        client = Client(started)
        await client.initialize()
        known = (await ask(client, dry_run=True))["plan_digest"]
        other = [TASKS[0], {**TASKS[1], "arguments": {"text": "{{a}}!"}}]
        answer = await client.call(name, {"workflow": {"tasks": other}, "plan_digest": known})
        assert answer["isError"]
        about = answer["_meta"]["pml/failure"]
        assert (about["code"], about["details"]["changed"]) == ("plan.changed", ["task 'b': its arguments"])
        assert "Rehearse it again" in answer["content"][0]["text"]
        unknown = await client.call(name, {"workflow": {"tasks": other}, "plan_digest": "0" * 64})
        assert "what, is not known any more" in unknown["content"][0]["text"]
        again = await client.call(name, {"workflow": {"tasks": other}, "plan_digest": known, "dry_run": True})
        assert again["structuredContent"]["plan_changed"] == ["task 'b': its arguments"]
        assert again["structuredContent"]["plan_digest"] != known
        assert server.calls == []


async def test_only_the_outermost_plan_gets_a_digest():
    inner = {"id": "i", "type": "workflow", "tasks": [{"id": "x", "tool": "s:read"}]}
    async with gateway(ScriptedServer(["read"])) as started:
        client = Client(started)
        await client.initialize()
        told = (await client.call("execute_workflow", {"workflow": {"tasks": [inner]}, "dry_run": True}))[
            "structuredContent"
        ]
        assert "plan_digest" in told
        assert "plan_digest" not in str(told["tasks"])


class Suggests:
    """A plugin that makes one plan."""

    def __init__(self):
        self.tools = ["s:read"]

    @hookimpl
    def pml_offers(self, services):
        return [Offer(SUGGESTER, self)]

    async def suggest(self, intent, run, *, limit):
        tasks = tuple(ToolCall(id=f"t{i}", tool=one) for i, one in enumerate(self.tools))
        return [Suggestion(workflow=Workflow(id="w", tasks=tasks), confidence=0.7, why="why")]


async def test_an_intent_is_rehearsed_and_then_run_as_it_was_rehearsed():
    suggests, intent = Suggests(), {"intent": "look around"}
    read = {"name": "read", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
    async with gateway(ScriptedServer([read, "write"]), suggests) as started:
        client = Client(started)
        await client.initialize()

        async def request(**more):
            answer = await client.call("execute_workflow", {**intent, **more})
            return answer["_meta"]["pml/failure"] if answer.get("isError") else value_of(answer)

        rehearsed = await request(dry_run=True)
        assert (rehearsed["status"], rehearsed["tasks"][0]["tool"]) == ("simulated", "s:read")
        assert rehearsed["planned"]["confidence"] == 0.7
        assert (await request(dry_run=False))["status"] == "suggestion"
        ran = await request(dry_run=False, plan_digest=rehearsed["plan_digest"])
        assert ran["status"] == "completed"
        as_told = rehearsed["planned"]["arguments"]
        answer = await client.call("execute_workflow", {**as_told, "plan_digest": rehearsed["plan_digest"]})
        assert value_of(answer)["status"] == "completed"
        suggests.tools.append("s:write")
        refused = await request(dry_run=False, plan_digest=rehearsed["plan_digest"])
        assert refused["code"] == "plan.changed"
        assert "task 't1' is new" in refused["details"]["changed"]


async def test_an_intent_without_a_plan_is_not_rehearsed():
    class Silent(Suggests):
        async def suggest(self, intent, run, *, limit):
            return []

    async with gateway(ScriptedServer(["read"]), Silent()) as started:
        client = Client(started)
        await client.initialize()
        answer = await client.call("execute_workflow", {"intent": "x", "dry_run": True})
        assert answer["_meta"]["pml/failure"]["code"] == "plan.explicit_required"
