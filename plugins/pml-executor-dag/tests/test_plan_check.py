"""What the executor tells of a plan before it runs: its graph, and each mistake with its task and its place in it."""

from __future__ import annotations

import pytest

from pml_executor_dag import Dag
from pml_hookspecs import CodeRun, Session, Step, ToolCall, Workflow
from pml_testing.fakes import outcome

pytestmark = pytest.mark.anyio


def call(id_, *, depends_on=(), step=None, **arguments):
    return ToolCall(id=id_, tool="s:t", arguments=arguments, depends_on=depends_on, step=step or Step())


async def verdict(*tasks, **more):
    return await Dag().check(Workflow(id="w", tasks=tasks, **more), Session(key="k"), within_s=1)


def told(failures):
    return [(one.code, one.details.get("task"), one.details.get("at", "")) for one in failures]


async def test_the_graph_is_the_one_that_is_run():
    undo = call("u", id="{{b.id}}")
    inner = Workflow(id="in", tasks=(call("x", v="{{item.a}}"),), step=Step(for_each="{{b.items}}"))
    found = await verdict(
        call("a"),
        call("b", v=["{{a.x}} and \\{{", "{{a}}"], step=Step(when="c.total > `1`", compensate=undo)),
        call("c"),
        inner,
        known={"a": outcome("a")},
    )
    assert (found.checked, found.problems, found.doubts) == ("syntax", [], [])
    nodes = {node.path: node for node in found.plan.all_nodes()}
    assert {path: node.depends_on for path, node in nodes.items()} == {
        "a": (), "b": ("a", "c"), "c": (), "in": ("b",), "in/x": (),
    }  # fmt: skip
    assert [slot.path for slot in nodes["b"].values] == [("v", 0), ("v", 1)]
    assert [slot.whole is not None for slot in nodes["b"].values] == [False, True]
    assert nodes["b"].values[0].text == "{{a.x}} and {{"
    assert [slot.path for slot in nodes["in"].each] == [()]
    assert [one.text for one in nodes["b"].references()] == ["{{a.x}}", "{{a}}", "{{b.id}}"]
    assert [path for path, node in nodes.items() if node.known] == ["a"]
    assert found.plan.layers == [["a", "c"], ["b"], ["in"]]
    assert nodes["in"].inner.external_ids == {"item", "index"}
    assert nodes["in/x"].graph.above is nodes["in"]


@pytest.mark.parametrize(
    ("tasks", "problems"),
    [
        ([call("a", v="{{b}}"), call("b", v="{{a}}")], [("plan.cycle", "a", "")]),
        ([call("a"), call("a")], [("plan.duplicate_id", "a", "")]),
        ([call("a#1")], [("plan.id", "a#1", "")]),
        ([call("a", depends_on=("b",))], [("reference.no_task", "a", "depends_on[0]")]),
        ([call("a", x={"y": ["{{b}}"]})], [("reference.no_task", "a", "arguments.x.y[0]")]),
        ([call("a", x="{{item}}")], [("reference.no_item", "a", "arguments.x")]),
        ([call("a", x="{{a}}")], [("plan.needs_itself", "a", "arguments.x")]),
        ([call("a", x="{{ oh")], [("reference.unreadable", "a", "arguments.x")]),
        ([call("a", step=Step(when="b.x"))], [("reference.no_task", "a", "when")]),
        ([call("a", step=Step(when="nonsense("))], [("plan.condition", "a", "when")]),
        ([call("a"), call("b", x="${a.result.n}")], [("reference.foreign", "b", "arguments.x")]),
        ([call("a"), call("b", x="It is $a.result.")], [("reference.foreign", "b", "arguments.x")]),
        ([call("a", step=Step(for_each="{{b}}"))], [("reference.no_task", "a", "for_each")]),
        (
            [call("a", step=Step(compensate=CodeRun(id="u", language="python", source="", inputs={"x": "{{b}}"})))],
            [("reference.no_task", "a", "compensate.inputs.x")],
        ),
        ([Workflow(id="in", tasks=(call("x", v="{{y}}"),))], [("reference.no_task", "in/x", "arguments.v")]),
        (
            [call("a", step=Step(compensate=Workflow(id="u", tasks=(call("x", v="{{y}}"),))))],
            [("reference.no_task", "a/x", "arguments.v")],
        ),
    ],
)
async def test_what_is_wrong_is_told_with_its_place_and_refused_when_it_runs(tasks, problems):
    found = await verdict(*tasks)
    assert told(found.problems) == problems
    assert found.doubts == []


async def test_what_only_may_be_a_reference_is_a_doubt():
    found = await verdict(call("a"), call("b", x="costs ${a.n}, $b.c and ${c.d}", y="$a"))
    assert (found.problems, told(found.doubts)) == ([], [("reference.foreign", "b", "arguments.x")])
    assert "write {{a.n}}" in found.doubts[0].message


async def test_plans_within_plans_have_a_bound():
    plan = Workflow(id="w", tasks=(call("a"),))
    for _ in range(30):
        plan = Workflow(id="w", tasks=(plan,))
    found = await Dag().check(plan, Session(key="k"), within_s=1)
    assert [one.code for one in found.problems] == ["plan.too_deep"]


async def test_of_other_tasks_nothing_is_known():
    assert (await Dag().check(call("a"), Session(key="k"), within_s=1)).plan is None
