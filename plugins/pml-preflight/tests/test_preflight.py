"""The pre-flight of a plan: what it finds, what it says of each step, and how the report reads."""

from __future__ import annotations

import pytest
from plan_catalog import CATALOG, LIST, call, code, examined, found
from plan_services import PlanServices

from pml_core.plugins.nulls import MemoryStore
from pml_hookspecs import (
    CapabilityRun,
    ExecutionRecord,
    Failure,
    ServerStatus,
    Status,
    Step,
    Workflow,
)
from pml_kit.offers import Verdict
from pml_preflight.examination import preflight
from pml_testing.fakes import EPOCH, FakeCatalog, FakeRun, FakeServices, entry, outcome

pytestmark = pytest.mark.anyio


async def test_a_plan_that_is_right_is_told_in_full():
    told = await examined(
        LIST, call("b", "t:create", title="{{a.items[0].id}}"), code("c", "return b['id']", depends_on=("b",))
    )
    assert (told["ok"], told["syntax_valid"], told["errors"], told["warnings"]) == (True, True, [], [])
    assert told["tools_called"] == ["t:list", "t:create"]
    assert (told["side_effects"], told["reversible"], told["cache_misses"]) == (["b"], False, ["a", "b"])
    assert told["steps"][0] == {
        "id": "a", "type": "tool", "target": "t:list", "effect": "reads", "idempotent": True, "reversible": True,
        "answer": "schema",
    }  # fmt: skip
    assert next(iter(told)) == "text"
    assert told["text"].splitlines() == [
        "Pre-flight of 3 steps: nothing wrong. Cannot be undone: b.",
        "  b: t:create after a — changes something, destroys nothing, rehearsed by schema",
        "  c: python after b — no effects",
        "  only read: a",
        "Duration: unknown. Cost: unknown.",
    ]


@pytest.mark.parametrize(
    ("tasks", "wrong"),
    [
        ([call("a", "t:lst")], ("a", "tool.unknown", "")),
        ([LIST, call("b", "t:list", step=Step(when="aa.total"))], ("b", "reference.no_task", "when")),
        ([LIST, call("b", "t:create", title="${a.items[0].id}")], ("b", "reference.foreign", "arguments.title")),
        ([LIST, call("b", "t:create", title="No $a.result")], ("b", "reference.foreign", "arguments.title")),
        ([LIST, call("b", "t:raw", x=[{"y": "${a.result.id}!"}])], ("b", "reference.foreign", "arguments.x[0].y")),
        ([LIST, call("b", "t:delete", id="${a}")], ("b", "reference.foreign", "arguments.id")),
        ([LIST, call("b", "t:list", step=Step(when="b.total"))], ("b", "plan.needs_itself", "when")),
        ([call("a", "off:tool")], ("a", "server.unavailable", "")),
        ([call("a", "off:other")], ("a", "server.unavailable", "")),
        ([call("a", "t:create")], ("a", "argument.missing", "arguments.title")),
        ([call("a", "t:create", title=5)], ("a", "argument.type", "arguments.title")),
        ([call("a", "t:create", title="x", tittle="y")], ("a", "argument.unknown", "arguments.tittle")),
        ([call("a", "t:raw", verbos=True)], ("a", "argument.undeclared", "arguments.verbos")),
        ([call("a", "t:create", title="x", state="opn")], ("a", "argument.choice", "arguments.state")),
        ([call("a", "t:create", title="x", due="soon")], ("a", "argument.format", "arguments.due")),
        ([call("a", "t:create", title="x" * 21)], ("a", "argument.range", "arguments.title")),
        ([call("a", "t:create", title="x", labels=["y", 5])], ("a", "argument.type", "arguments.labels[1]")),
        ([call("a", "t:create", title="x", parent="y")], ("a", "argument.type", "arguments.parent")),
        ([LIST, call("b", "t:create", title="{{a.total}}")], ("b", "reference.type", "arguments.title")),
        ([LIST, call("b", "t:create", title="x", labels="{{a.items}}")], ("b", "reference.type", "arguments.labels")),
        ([LIST, call("b", "t:create", title="x", labels=["{{a.total}}"])],
         ("b", "reference.type", "arguments.labels[0]")),
        ([LIST, call("b", "t:create", title="x", labels="no {{a.total}}")], ("b", "argument.type", "arguments.labels")),
        ([LIST, call("b", "t:create", title="x", state="is {{a.total}}")], ("b", "argument.choice", "arguments.state")),
        ([LIST, call("b", "t:delete", id="{{a.items[0].nr}}")], ("b", "reference.missing", "arguments.id")),
        ([LIST, call("b", "t:delete", id="{{a.items.id}}")], ("b", "reference.missing", "arguments.id")),
        ([LIST, call("b", "t:delete", id="{{a.count}}")], ("b", "reference.undeclared", "arguments.id")),
        ([LIST, call("b", "t:delete", id="{{aa.total}}")], ("b", "reference.no_task", "arguments.id")),
        ([call("b", "t:delete", id="{{b.total}}")], ("b", "plan.needs_itself", "arguments.id")),
        ([call("b", "t:delete", id="{{item.id}}")], ("b", "reference.no_item", "arguments.id")),
        ([call("b", "t:delete", id="{{ item")], ("b", "reference.unreadable", "arguments.id")),
        ([call("a", "t:list", depends_on=("b",)), call("b", "t:list", depends_on=("a",))], ("a", "plan.cycle", "")),
        ([LIST, LIST], ("a", "plan.duplicate_id", "")),
        ([call("a", "t:list", depends_on=("z",))], ("a", "reference.no_task", "depends_on[0]")),
        ([LIST, call("b", "t:raw", step=Step(for_each="{{a.total}}"))], ("b", "reference.type", "for_each")),
        ([LIST, call("b", "t:delete", id="{{item.nr}}", step=Step(for_each="{{a.items}}"))],
         ("b", "reference.missing", "arguments.id")),
        ([call("b", "t:delete", id="{{item}}", step=Step(for_each=[1, 2]))], ("b", "reference.type", "arguments.id")),
        ([call("b", "t:create", title="x", step=Step(compensate=call("u", "t:delete", id="{{b.nr}}")))],
         ("b", "reference.missing", "compensate.id")),
        ([call("b", "t:create", title="x", step=Step(compensate=call("u", "t:delete")))],
         ("b", "argument.missing", "compensate.id")),
        ([call("b", "t:create", title="x", step=Step(compensate=call("u", "t:undo")))],
         ("b", "tool.unknown", "compensate")),
        ([code("c", "return (")], ("c", "code.syntax", "code")),
        ([LIST, code("c", "return a['total']")], ("c", "plan.missing_need", "code")),
        ([code("c", "return totl")], ("c", "code.undefined", "code")),
        ([code("c", "return await tools.t.lst()")], ("c", "tool.unknown", "code")),
        ([code("c", "return await tools.t.create(titel='x')")], ("c", "code.type", "code")),
        ([code("c", "return await tools.off.tool({});", language="typescript")], ("c", "server.unavailable", "code")),
        ([Workflow(id="w", tasks=(call("x", "t:create"),))], ("w/x", "argument.missing", "arguments.title")),
        ([call("a", "t:far")], ("a", "schema.unusable", "")),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_found_at_its_place(tasks, wrong):
    assert wrong in await found(*tasks)


@pytest.mark.parametrize(
    "tasks",
    [
        [LIST, call("b", "t:create", title="{{a.items[0].by}}")],
        [
            LIST,
            call(
                "b", "t:create", title="no. {{a.total}}", parent="{{a.items[1].number}}", labels=["{{a.items[0].id}}"]
            ),
        ],
        [call("a", "t:raw"), call("b", "t:create", title="{{a.anything[3].goes}}", state="{{a.state}}")],
        [call("a", "t:raw"), call("b", "t:create", title="x", labels="{{a}}", due="{{a.due}}")],
        [LIST, call("b", "t:delete", id="{{item.id}}", step=Step(for_each="{{a.items}}"))],
        [LIST, call("b", "t:create", title="x", state="op{{a.total}}n")],
        [
            LIST,
            Workflow(
                id="w",
                tasks=(call("x", "t:delete", id="{{item}}", step=Step(for_each="{{item.labels}}")),),
                step=Step(for_each=[{"labels": ["p"]}]),
            ),
        ],
        [LIST, call("b", "t:create", title="n", parent="{{index}}", step=Step(for_each="{{a.items}}"))],
        [call("b", "t:delete", id="{{item.x}}", step=Step(for_each=[{"x": "1"}, {"x": "2", "y": 3}]))],
        [LIST, call("b", "t:create", title="\\{{braces}} {{a}}")],
        [LIST, call("b", "t:raw", x="$a costs $5, ${b.c} $c.result", y="$a")],
        [LIST, call("b", "t:list", step=Step(when="a.total > `3` && 'z' != 'q'"))],
        [LIST, call("b", "t:list", step=Step(when="a.total > `3` && a.c")), call("c", "t:list", depends_on=("b",))],
        [
            LIST,
            call("b", "t:list", step=Step(when="a.items[?id == 'c' && c].d | [0]")),
            call("c", "t:list", depends_on=("b",)),
        ],
        [
            code("a", "import json\nx = [y for y in range(3)]\nreturn json.dumps(x)"),
            call("b", "t:create", title="{{a}}"),
        ],
        [LIST, code("c", "const { total } = a;\nreturn { total, a: 1 };", depends_on=("a",), language="typescript")],
        [LIST, code("c", "// uses a\nreturn 'a' + `a`;", language="typescript")],
        [code("c", "from math import *\nreturn sqrt(2)")],
        [code("c", "return await tools.t.create(title='x')"), code("d", "return await tools['t:list']()")],
        [
            Workflow(id="w", tasks=(call("x", "t:list"),)),
            call("b", "t:create", title="{{w.status}}", depends_on=("w",)),
        ],
        [Workflow(id="w", tasks=(call("x", "t:delete", id="{{item}}"),), step=Step(for_each=["p"]))],
        [CapabilityRun(id="k", capability_id="x"), call("b", "t:delete", id="{{k.deep[0]}}")],
        [call("a", "pml:search_tools", query="x")],
    ],
)
async def test_what_is_right_raises_no_alarm(tasks):
    assert await found(*tasks) == []


@pytest.mark.parametrize(
    "tasks",
    [
        [call("n", "t:raw"), call("status", "t:raw", step=Step(when="n.status == 'open'"))],
        [call("n", "t:raw", step=Step(when="status.n > `1`")), call("status", "t:raw")],
    ],
)
async def test_a_field_in_a_condition_that_is_called_like_a_task_is_no_dependency(tasks):
    told = await examined(*tasks)
    assert (told["errors"], told["warnings"]) == ([], [])
    assert sorted(len(step.get("depends_on", ())) for step in told["steps"]) == [0, 1]


async def test_of_an_executor_that_says_nothing_of_plans_the_order_is_not_known():
    tasks = (call("a", "t:list"), call("b", "t:create", title="{{a.total}}", labels=["\\{{x"]), call("c", "t:lst"))
    report = await preflight(Workflow(id="w", tasks=tasks), FakeRun(), FakeServices(catalog=CATALOG))
    assert [(one.level, one.code, one.task) for one in report.findings] == [
        ("warning", "plan.unread", ""), ("error", "reference.type", "b"), ("error", "tool.unknown", "c"),
    ]  # fmt: skip
    assert [step.depends_on for step in report.steps] == [(), (), ()]
    nobody = FakeServices(catalog=CATALOG)
    nobody.verdicts["w"] = Verdict(problems=[Failure("executor.missing", "no executor for workflow tasks")])
    report = await preflight(Workflow(id="w", tasks=tasks[:1]), FakeRun(), nobody)
    assert [(one.level, one.code) for one in report.findings] == [("error", "executor.missing")]


async def test_a_loop_over_its_own_item_is_told_and_ends():
    told = await examined(LIST, call("b", "t:delete", id="x", step=Step(for_each="{{item.id}}")))
    assert [(one["code"], one["task"], one["at"]) for one in told["errors"]] == [("reference.no_item", "b", "for_each")]


async def test_what_a_schema_names_and_does_not_promise_is_noted_and_no_alarm():
    made = call("a", "t:create", title="x")
    told = await examined(made, call("b", "t:create", title="{{a.state}}"), call("c", "t:create", title="{{a.id}}"))
    assert (told["ok"], told["warnings"]) == (True, [])
    (noted,) = told["notes"]
    assert (noted["code"], noted["task"], noted["at"]) == ("reference.optional", "b", "arguments.title")
    assert noted["message"] == "{{a.state}} may find nothing: a need not have 'state'"
    assert "  ? b arguments.title: {{a.state}} may find nothing: a need not have 'state'" in told["text"].splitlines()


async def test_messages_say_what_to_do():
    told = await examined(call("a", "t:lst"), call("b", "t:create", titel="x"), call("c", "t:list"),
                          call("d", "t:delete", id="{{c.items[0].nmber}}"))  # fmt: skip
    assert [one["message"] for one in told["errors"]] == [
        "no tool is called 't:lst'; did you mean t__list?",
        "unknown; did you mean 'title'?",
        "is missing; expected a string",
        "{{c.items[0].nmber}} finds nothing: in c, items[0] has no 'nmber'; did you mean 'number'?",
    ]
    assert told["missing_tools"][0]["nearest"] == ["t__list"]


async def test_forbidden_tools_are_refused_and_not_told_of():
    catalog = FakeCatalog(list(CATALOG), CATALOG.servers())
    catalog.denied = {"t:create", "t:delete"}
    told = await examined(call("a", "t:create", nonsense=1), call("b", "t:creat"), catalog=catalog)
    assert [(one["task"], one["code"]) for one in told["errors"]] == [("a", "policy.denied"), ("b", "tool.unknown")]
    assert "create" not in str(told["missing_tools"][0]["nearest"])
    assert "title" not in str(told)
    inside = await found(code("c", "return await tools.t.create(x=1)"), catalog=catalog)
    assert inside == [("c", "policy.denied", "code")]


@pytest.mark.parametrize(
    ("state", "level", "if_unknown"),
    [("up", "", "errors"), ("idle", "", "errors"), ("starting", "", "warnings"), ("disabled", "errors", "errors")],
)
async def test_servers_that_do_not_run(state, level, if_unknown):
    catalog = FakeCatalog([entry("s:x")], [ServerStatus(name="s", state=state, tools=1)])
    told = await examined(call("a", "s:x"), catalog=catalog)
    assert [name for name in ("errors", "warnings") if told[name]] == ([level] if level else [])
    assert told["servers"] == {"s": state}
    unknown = await examined(call("a", "s:y"), catalog=catalog)
    assert [name for name in ("errors", "warnings") if unknown[name]] == [if_unknown]


async def test_effects_approvals_and_undoing_are_told_for_each_step():
    undo = call("u", "t:delete", id="{{c.id}}")
    told = await examined(
        LIST,
        call("b", "t:delete", id="x", step=Step(approve=True)),
        call("c", "t:create", title="x", step=Step(compensate=undo)),
        call("d", "t:raw"),
        code("e", "return 1"),
        code("f", "return await tools.t.list()"),
        code("g", "return getattr(tools, 'x')"),
        CapabilityRun(id="h", capability_id="x"),
    )
    steps = {step["id"]: step for step in told["steps"]}
    effects = {id_: step["effect"] for id_, step in steps.items()}
    assert effects == dict(
        zip("abcdefgh", ["reads", "destroys", "adds", "unknown", "nothing", "reads", "unknown", "unknown"], strict=True)
    )
    assert [id_ for id_, step in steps.items() if step.get("dangerous")] == ["b", "d", "g", "h"]
    assert [id_ for id_, step in steps.items() if not step["reversible"]] == ["b", "d", "g", "h"]
    assert (told["needs_approval"], told["reversible"]) == (["b"], False)
    assert steps["f"]["calls"] == ["t:list"]
    assert told["tools_called"] == ["t:list", "t:delete", "t:create", "t:raw"]
    assert "A human has to look at: b." in told["text"]


async def test_what_is_known_already_is_not_run_again():
    known = {"a": outcome("a", {"x": 1})}
    told = await examined(call("a", "no:tool", z="{{q}}"), call("b", "t:raw", depends_on=("a",)), known=known)
    assert [one["code"] for one in told["errors"]] == ["reference.no_task"]
    assert (told["tools_called"], told["steps"][0]["already_done"]) == (["t:raw"], True)


async def test_budgets_that_the_plan_exceeds_are_told():
    loop = call("b", "t:raw", step=Step(for_each=[1, 2, 3]))
    assert await found(LIST, loop, max_tool_calls=3) == [("", "budget.tool_calls", "")]
    assert await found(LIST, loop, max_tool_calls=4) == []
    maybe = call("b", "t:raw", step=Step(for_each=[1, 2, 3], when="a"))
    told = await examined(LIST, maybe, max_tool_calls=3)
    assert (told["errors"], [one["code"] for one in told["warnings"]]) == ([], ["budget.tool_calls"])


@pytest.fixture
async def store():
    async with MemoryStore() as opened:
        yield opened


async def history(store, *calls, principal="local", **more):
    for i, (target, duration_ms, cost_usd) in enumerate(calls):
        record = ExecutionRecord(
            id=f"{principal}-{i:03}", kind="tool", target=target, principal=principal, status=Status.OK,
            started_at=EPOCH, duration_ms=duration_ms, cost_usd=cost_usd, **more,
        )  # fmt: skip
        await store.executions.put(record)


async def test_durations_along_the_critical_path_and_costs_come_from_the_callers_history(store):
    await history(store, ("t:list", 100, None), ("t:list", 300, 0.02), ("t:list", 120, 0.04), ("t:raw", 1000, None))
    await history(store, ("t:list", 90_000, 9.0), ("t:delete", 5, None), principal="somebody else")
    await history(store, ("t:create", 7, None), dry_run=True, principal="local2")
    fast = call("b", "t:list", depends_on=("a",))
    slow = call("c", "t:raw", depends_on=("a",), step=Step(for_each=[1, 2]))
    told = await examined(LIST, fast, slow, call("d", "t:delete", id="x", depends_on=("b", "c")), store=store)
    assert told["estimated_duration_ms"] == 120 + 1000
    assert told["estimated_cost_usd"] == 0.06
    assert (told["critical_path"], told["without_estimate"]) == (["a", "c", "d"], ["d"])
    assert [(step.get("estimated_duration_ms"), step.get("samples", 0)) for step in told["steps"]] == [
        (120, 3), (120, 3), (1000, 1), (None, 0),
    ]  # fmt: skip
    assert told["text"].splitlines()[-1] == (
        "Duration: about 1.1 s along a, c, d; nothing is known of d. Cost: about 0.06 USD."
    )
    limited = await found(LIST, timeout_s=0.1, max_cost_usd=0.01, store=store)
    assert [code_ for _, code_, _ in limited] == ["budget.time", "budget.cost"]


async def test_each_parallel_round_of_a_loop_takes_its_time(store):
    await history(store, ("t:list", 100, 0.01))
    loop = call("a", "t:list", step=Step(for_each=[1, 2, 3, 4, 5]))
    told = await examined(loop, max_parallel=2, store=store)
    assert (told["estimated_duration_ms"], told["estimated_cost_usd"]) == (300, 0.05)


def chain(length):
    return [call(f"t{i}", "t:list", depends_on=(f"t{i - 1}",) if i else ()) for i in range(length)]


async def test_a_plan_of_a_thousand_steps_is_examined_in_good_time():
    report = await preflight(Workflow(id="w", tasks=tuple(chain(1000))), FakeRun(), PlanServices(catalog=CATALOG))
    assert report.errors == []
    assert report.took_ms < 2000
    assert len(report.text().splitlines()) < 70
