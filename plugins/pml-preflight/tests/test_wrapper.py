"""The pre-flight in the chain: whose plans it reports on, and that it stops nobody."""

from __future__ import annotations

import pytest
from plan_catalog import CATALOG, LIST, TEXT, call
from plan_services import PlanServices

from pml_hookspecs import (
    Failure,
    Offer,
    Phase,
    Status,
    Workflow,
)
from pml_kit.offers import RECORDED_ANSWERS, RecordedTool
from pml_preflight import plugin
from pml_preflight.examination import preflight
from pml_testing.fakes import FakeCatalog, FakeRun, outcome
from pml_testing.wrapper import WrapperContract

pytestmark = pytest.mark.anyio


class TestPreflightKeepsTheContract(WrapperContract):
    @pytest.fixture
    def wrapper(self):
        return plugin.pml_wrap_executor(PlanServices(catalog=CATALOG))[0]

    @pytest.fixture
    def tasks(self):
        return [LIST, Workflow(id="w", tasks=(LIST,))]


def wrapper(**services):
    (made,) = plugin.pml_wrap_executor(PlanServices(catalog=CATALOG, **services))
    assert made.phase is Phase.SUBSTITUTE
    return made


def answering(ended):
    async def following(task, run):
        following.calls.append(task)
        return ended

    following.calls = []
    return following


async def test_the_report_is_added_to_what_the_rehearsal_tells():
    following = answering(outcome("w", {"status": "simulated", "tasks": []}, Status.SIMULATED))
    ended = await wrapper()(Workflow(id="w", tasks=(LIST,)), FakeRun(dry_run=True), following)
    assert (ended.status, ended.output["status"], ended.output["preflight"]["ok"]) == (
        Status.SIMULATED,
        "simulated",
        True,
    )
    assert len(following.calls) == 1


async def test_a_plan_that_was_refused_tells_why_beside_the_report():
    refused = outcome("w", None, Status.ERROR, failure=Failure("workflow.invalid", "a circle"))
    ended = await wrapper()(Workflow(id="w", tasks=(LIST,)), FakeRun(dry_run=True), answering(refused))
    assert ended.failure is refused.failure
    report, *_ = ended.output.values()
    assert (report["ok"], [one["code"] for one in report["errors"]]) == (False, ["workflow.invalid"])
    error = {"code": "workflow.invalid", "message": "a circle"}
    assert ended.output == {"preflight": report, "status": "failed", "dry_run": True, "error": error}


@pytest.mark.parametrize(
    ("task", "run"),
    [
        (LIST, FakeRun(dry_run=True)),
        (Workflow(id="w", tasks=(LIST,)), FakeRun()),
        (Workflow(id="w", tasks=(), intent="x"), FakeRun(dry_run=True)),
    ],
)
async def test_what_is_no_rehearsed_plan_passes_as_it_is(task, run):
    ended = outcome("w", {"status": "x"})
    assert await wrapper()(task, run, answering(ended)) is ended


async def test_only_the_outermost_plan_is_reported():
    made, inner = wrapper(), Workflow(id="i", tasks=(LIST,))
    outer_run = FakeRun(dry_run=True)

    async def outermost(task, run):
        child = FakeRun(dry_run=True, parent=outer_run.id)
        child.id = "child"
        return outcome("w", {"inner": (await made(inner, child, innermost)).output})

    async def innermost(task, run):
        return outcome("i", {"status": "simulated"})

    ended = await made(Workflow(id="w", tasks=(inner,)), outer_run, outermost)
    assert ended.output["inner"] == {"status": "simulated"}
    assert [step["id"] for step in ended.output["preflight"]["steps"]] == ["i", "i/a"]


async def test_a_pre_flight_that_breaks_stops_no_rehearsal():
    class Odd(FakeCatalog):
        def servers(self):
            raise RuntimeError("boom")

    services = PlanServices(catalog=Odd(list(CATALOG)))
    (made,) = plugin.pml_wrap_executor(services)
    ended = await made(
        Workflow(id="w", tasks=(LIST,)), FakeRun(dry_run=True), answering(outcome("w", {"status": "ok"}))
    )
    assert (ended.output["status"], ended.output["preflight"]["ok"]) == ("ok", False)
    assert [level for level, *_ in services.log.lines] == ["exception"]


async def test_a_plan_that_is_nested_too_deeply_is_told():
    deep = []
    for _ in range(5000):
        deep = [deep]
    plan = Workflow(id="w", tasks=(call("a", "t:raw", x=deep),))
    ended = await wrapper()(plan, FakeRun(dry_run=True), answering(outcome("w", {"status": "ok"})))
    assert ended.output["preflight"]["text"] == "The plan is nested too deeply to be examined."


class OnRecord:
    """Has answers of two tools on record."""

    async def of_tool(self, tool, session):
        known = {
            "t:list": RecordedTool(calls=2, durations_ms=[40, 60], shown=True),
            "t:raw": RecordedTool(calls=1, durations_ms=[7], result={"type": "object", "properties": {"id": TEXT}}),
        }
        return known.get(tool.id, RecordedTool())

    async def answers(self, task, tool, session):
        return (tool.id, dict(task.arguments), session.principal) == ("t:list", {"page": 1}, "local")


async def test_what_is_on_record_is_what_a_plugin_offers():
    tasks = (call("a", "t:list", page=1), call("b", "t:list"), call("c", "t:raw"), call("d", "t:delete", id="{{c.di}}"))
    services = PlanServices(catalog=CATALOG, offers=[Offer(RECORDED_ANSWERS, OnRecord())])
    told = (await preflight(Workflow(id="w", tasks=tasks), FakeRun(dry_run=True), services)).to_report()
    assert [step["answer"] for step in told["steps"]] == ["recorded", "example", "inferred", "placeholder"]
    assert [step.get("estimated_duration_ms") for step in told["steps"]] == [50, 50, 7, None]
    assert [(one["task"], one["code"]) for one in told["warnings"]] == [("d", "reference.undeclared")]
    assert told["ok"]
