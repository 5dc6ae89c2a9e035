"""What comes of an intent without a plan."""

from __future__ import annotations

import pytest
from plans_kit import workflow_from

from pml_executor_dag import Dag, Settings
from pml_executor_dag.planning import suggested
from pml_hookspecs import CapabilityRun, CodeRun, Offer, ServerStatus, Status, Step, ToolCall, Workflow
from pml_kit.offers import SUGGESTER, Suggestion
from pml_testing.fakes import FakeCatalog, FakeRun, FakeServices, entry, outcome

pytestmark = pytest.mark.anyio

CATALOG = FakeCatalog(
    [
        entry("s:read", annotations={"readOnlyHint": True}),
        entry("s:add", annotations={"destructiveHint": False}),
        entry("s:write", annotations={"destructiveHint": True}),
        entry("s:unknown"),
        entry("s:odd", annotations=["readOnlyHint"]),
    ],
    [ServerStatus(name="nobody", state="starting")],
)
INTENT = Workflow(id="workflow", tasks=(), intent="tidy up")


def suggestion(confidence, *tools, **more):
    tasks = tuple(ToolCall(id=f"t{i}", tool=f"s:{tool}") for i, tool in enumerate(tools))
    return Suggestion(
        workflow=Workflow(id="w", tasks=tasks, **more), confidence=confidence, why="They were used together."
    )


class Planner:
    """Makes the same plans of every intent, or fails."""

    def __init__(self, *suggestions):
        self.suggestions = suggestions

    async def suggest(self, intent, run, *, limit):
        if not self.suggestions:
            raise RuntimeError("no idea")
        return self.suggestions


def dag(*suggestions, **settings):
    return Dag(Settings(**settings), FakeServices(catalog=CATALOG, offers=[Offer(SUGGESTER, Planner(*suggestions))]))


@pytest.mark.parametrize(
    ("mode", "confidence", "outcome_"),
    [
        ("explicit_required", 1.0, "explicit"),
        ("suggestion", 0.49, "explicit"),
        ("suggestion", 0.5, "suggestion"),
        ("suggestion", 1.0, "suggestion"),
        ("speculative_execution", 0.49, "explicit"),
        ("speculative_execution", 0.5, "suggestion"),
        ("speculative_execution", 0.84, "suggestion"),
        ("speculative_execution", 0.85, "run"),
        ("speculative_execution", 1.0, "run"),
    ],
)
async def test_confidence_and_mode_decide(mode, confidence, outcome_):
    run = FakeRun()
    ended = await dag(suggestion(confidence, "read"), confidence_mode=mode).execute(INTENT, run)
    assert len(run.dispatched) == (outcome_ == "run")
    if outcome_ == "explicit":
        assert (ended.status, ended.failure.code) == (Status.ERROR, "plan.explicit_required")
    else:
        assert ended.status is Status.OK
        assert ended.output["status"] == ("completed" if outcome_ == "run" else "suggestion")


async def test_thresholds_are_settings():
    settings = {"confidence_mode": "speculative_execution", "suggest_at": 0.1, "execute_at": 0.2}
    assert (await dag(suggestion(0.15, "read"), **settings).execute(INTENT, FakeRun())).output["status"] == "suggestion"
    assert (await dag(suggestion(0.25, "read"), **settings).execute(INTENT, FakeRun())).output["status"] == "completed"


async def test_a_suggestion_can_be_sent_back_as_it_is():
    plans = suggestion(0.7, "read", "write"), suggestion(0.6, "add")
    ended = await dag(*plans).execute(INTENT, FakeRun())
    told = ended.output
    assert (told["confidence"], told["why"]) == (0.7, "They were used together.")
    sent_back = workflow_from(told["arguments"])
    assert (sent_back.tasks, sent_back.intent) == (plans[0].workflow.tasks, "tidy up")
    assert [other["arguments"]["workflow"]["tasks"][0]["tool"] for other in told["alternatives"]] == ["s:add"]


async def test_below_the_threshold_the_tools_are_told_in_order_of_use_with_their_schemas():
    ended = await dag(suggestion(0.2, "read", "write")).execute(INTENT, FakeRun())
    assert ended.output["status"] == "explicit_required"
    assert ended.output["error"]["code"] == "plan.explicit_required"
    assert [tool["tool"] for tool in ended.output["tools"]] == ["s:read", "s:write"]
    assert all("inputSchema" in tool for tool in ended.output["tools"])


@pytest.mark.parametrize("run", [{}, {"dry_run": True}])
async def test_a_plan_that_lacks_required_arguments_is_none(run):
    depends_on = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    catalog = FakeCatalog([entry("s:open", input_schema=depends_on)])
    tasks = (ToolCall(id="a", tool="s:open"),)
    sure = Suggestion(workflow=Workflow(id="w", tasks=tasks), confidence=1.0, why="")
    settings = Settings(confidence_mode="speculative_execution")
    executor, made = (
        Dag(settings, FakeServices(catalog=catalog, offers=[Offer(SUGGESTER, Planner(sure))])),
        FakeRun(**run),
    )
    ended = await executor.execute(INTENT, made)
    assert ended.failure.code == "plan.explicit_required"
    assert "nobody knows all arguments" in ended.failure.message
    assert [(tool["tool"], tool["inputSchema"]) for tool in ended.output["tools"]] == [("s:open", depends_on)]
    assert made.dispatched == []


async def test_without_a_plan_it_says_how_to_send_one():
    for executor, says in [
        (dag(), "no installed plugin that makes plans has one for this intent (pml-suggester makes plans)"),
        (dag(suggestion(0.31, "read")), "the best one has a confidence of 0.31, and 0.5 is needed"),
        (dag(confidence_mode="explicit_required"), "this gateway makes no plans (confidence_mode = explicit_required)"),
        (Dag(), "there is nobody to make one"),
    ]:
        message = (await executor.execute(INTENT, FakeRun())).failure.message
        assert says in message
        assert 'call execute_workflow with "workflow": {"tasks": [{"id": "a", "tool": "server:tool"' in message


async def test_a_plan_that_is_none_is_left_out():
    circle = Workflow(id="w", tasks=(ToolCall(id="a", tool="s:read", depends_on=("a",)),))
    bad = [Suggestion(workflow=circle, confidence=1.0, why=""), suggestion(0.9)]
    ended = await dag(*bad, suggestion(0.6, "read"), confidence_mode="speculative_execution").execute(INTENT, FakeRun())
    assert (ended.output["status"], ended.output["confidence"]) == ("suggestion", 0.6)


async def test_what_does_not_say_that_it_only_reads_waits_for_a_human():
    undo = Step(compensate=ToolCall(id="u", tool="s:write"))
    tasks = (
        ToolCall(id="a", tool="s:read"),
        ToolCall(id="b", tool="s:add", step=undo),
        ToolCall(id="c", tool="s:write"),
        ToolCall(id="d", tool="s:unknown"),
        ToolCall(id="e", tool="s:odd"),
        ToolCall(id="f", tool="nobody:has"),
        CodeRun(id="g", language="python", source="return 1"),
        CapabilityRun(id="h", capability_id="x"),
        Workflow(id="i", tasks=(ToolCall(id="j", tool="s:write"), ToolCall(id="k", tool="s:read"))),
    )
    run = FakeRun()
    plan = Suggestion(workflow=Workflow(id="w", tasks=tasks), confidence=0.9, why="why")
    ended = await dag(plan, confidence_mode="speculative_execution").execute(INTENT, run)
    wants = {task.id: task.step.approve for task in run.dispatched}
    assert wants == {**dict.fromkeys("ai", False), **dict.fromkeys("bcdefgh", True)}
    assert run.dispatched[1].step.compensate.step.approve
    assert [task.step.approve for task in run.dispatched[-1].tasks] == [True, False]
    assert ended.output["planned"] == {"confidence": 0.9, "why": "why"}
    assert ended.output["intent"] == "tidy up"


async def test_a_plan_that_is_given_is_run_as_it_is():
    run = FakeRun()
    given = Workflow(id="w", tasks=(ToolCall(id="a", tool="s:write"),), intent="tidy up")
    await dag(suggestion(1.0, "read")).execute(given, run)
    assert run.dispatched == list(given.tasks)


async def end_well(task, _run):
    return outcome(task.id)


async def test_plans_come_best_first_and_a_planner_that_fails_is_left_out():
    planners = (Planner(suggestion(0.2), suggestion(0.9)), Planner(), Planner(suggestion(0.5), suggestion(0.1)))
    services = FakeServices(offers=[Offer(SUGGESTER, one) for one in planners])
    found = await suggested(services, "tidy", FakeRun())
    assert [one.confidence for one in found] == [0.9, 0.5, 0.2]
    assert [(level, fields) for level, _, fields in services.log.lines] == [("exception", {"by": "another_plugin"})]
