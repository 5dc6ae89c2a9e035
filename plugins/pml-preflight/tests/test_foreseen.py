"""What a pre-flight makes of what executors and wrappers tell of steps before they run."""

from __future__ import annotations

import pytest
from plan_services import PlanServices

from pml_hookspecs import CapabilityRun, CodeRun, Failure, ServerStatus, Step, ToolCall, Workflow
from pml_kit.offers import Verdict
from pml_preflight.examination import Preflights
from pml_preflight.settings import Settings
from pml_testing.fakes import FakeCatalog, FakeRun, entry, outcome

pytestmark = pytest.mark.anyio
PATH = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
CATALOG = FakeCatalog(
    [
        entry("fs:read", input_schema=PATH, annotations={"readOnlyHint": True}),
        entry("fs:drop", annotations={"destructiveHint": True}),
        entry("caps:sum", annotations={"readOnlyHint": True}),
        entry("caps:other"),
    ],
    [ServerStatus(name="fs", state="up")],
)
TYPES = Verdict(checked="types")


def failure(code, message, line=None):
    return Failure(code, message, details={} if line is None else {"line": line, "column": 3})


def code(id_, source, *, depends_on=(), language="python", **more):
    return CodeRun(id=id_, language=language, source=source, depends_on=depends_on, **more)


async def examined(*tasks, verdicts=None, asking=None, settings=None, **more):
    """The report, and the services that were asked."""
    services = PlanServices(catalog=CATALOG)
    services.verdicts, services.asking = verdicts or {}, asking or {}
    examiner = Preflights(services, settings or Settings())
    report = await examiner.of(Workflow(id="w", tasks=tasks, **more), FakeRun(dry_run=True))
    return report.to_report(), services


def found(told):
    return [(one["task"], one["code"], one["message"], one.get("line")) for one in (*told["errors"], *told["warnings"])]


async def test_what_the_executor_finds_is_told_with_step_and_line():
    verdict = Verdict(
        checked="types",
        problems=[failure("code.undefined", "Cannot find name 'x'.", 2), failure("code.type", "Expected a string.", 1)],
        doubts=[failure("code.type", "Property 'y' does not exist.", 3)],
    )
    told, _ = await examined(code("c", "a;\nb;\nc;", language="typescript"), verdicts={"c": verdict})
    assert found(told) == [
        ("c", "code.undefined", "Cannot find name 'x'. (line 2 of the code)", 2),
        ("c", "code.type", "Expected a string. (line 1 of the code)", 1),
        ("c", "code.type", "Property 'y' does not exist. (line 3 of the code)", 3),
    ]
    assert [one["line"] for one in told["type_errors"]] == [1]
    assert (told["ok"], told["steps"][0]["code_checked"]) == (False, "types")
    assert "✗ c code: Cannot find name 'x'. (line 2 of the code) [code.undefined]" in told["text"]


async def test_code_that_is_right_is_told_as_checked():
    told, services = await examined(code("c", "return 1"), verdicts={"c": TYPES})
    assert (told["ok"], told["warnings"], told["steps"][0]["code_checked"]) == (True, [], "types")
    assert [task.id for task in services.checked] == ["c"]


async def test_what_was_not_checked_is_said():
    verdict = Verdict(checked="syntax", unchecked="Types were not checked within 5 s.")
    told, _ = await examined(code("c", "return 1", language="typescript"), verdicts={"c": verdict})
    assert told["steps"][0]["code_unchecked"] == "Types were not checked within 5 s."
    assert told["steps"][0]["code_checked"] == "parsed"
    assert "types were not checked within 5 s" in told["text"]
    assert told["ok"]


async def test_without_anybody_to_check_it_python_is_parsed_and_of_scripts_nothing_is_known():
    told, _ = await examined(code("c", "return (", language="typescript"), code("d", "return undefd"))
    assert told["errors"] == []
    assert [(one["task"], one["code"]) for one in told["warnings"]] == [("d", "code.undefined")]
    assert [step["code_checked"] for step in told["steps"]] == ["nothing", "parsed"]


async def test_what_a_parser_says_of_a_script_is_told():
    told, _ = await examined(
        code("c", "return /(/", language="typescript"),
        code("d", "return (", language="typescript"),
        verdicts={"c": TYPES, "d": Verdict(checked="syntax", problems=[failure("code.syntax", "Unexpected end.", 1)])},
    )
    assert found(told) == [("d", "code.syntax", "Unexpected end. (line 1 of the code)", 1)]


async def test_of_scripts_it_is_told_which_tools_stand_in_them_and_that_their_effects_are_unknown():
    source = "await tools.fs.read({ path: 'x' });\nreturn await tools['fs:drop']({});"
    told, _ = await examined(code("c", source, language="javascript"), asking={"fs:drop": "policy: no"})
    (step,) = told["steps"]
    assert (step["calls"], step["effect"], told["ok"]) == (["fs:drop", "fs:read"], "unknown", True)
    assert step["approval"] == "it names fs:drop, and policy: no"


async def test_a_script_that_reads_a_task_that_it_does_not_depend_on_is_told_how_to_get_it():
    step = ToolCall(id="a", tool="fs:read", arguments={"path": "x"})
    verdict = Verdict(checked="types", problems=[failure("code.undefined", "Cannot find name 'a'.", 2)])
    told, services = await examined(step, code("c", "\nreturn a.x", language="typescript"), verdicts={"c": verdict})
    (asked,) = services.checked
    assert asked.inputs == {}
    assert [(one["code"], one["line"]) for one in told["errors"]] == [("plan.missing_need", 2)]
    assert "does not depend on the task of that name; add it to depends_on" in told["errors"][0]["message"]


async def test_python_that_does_not_parse_is_not_handed_on():
    told, services = await examined(code("c", "return ("))
    assert [one["code"] for one in told["errors"]] == ["code.syntax"]
    assert services.checked == []


async def test_what_is_told_of_calls_here_is_not_told_twice():
    source = "x = 1\nawait tools.fs.read(paht='x')\nreturn undefd"
    problems = [
        failure("code.type", "No overload of bound method `FsTools.read` matches arguments", 2),
        failure("code.undefined", "Name `undefd` used when not defined", 3),
    ]
    told, _ = await examined(code("c", source), verdicts={"c": Verdict(checked="types", problems=problems)})
    assert [(one[1], one[3]) for one in found(told)] == [("code.type", 2), ("code.type", 2), ("code.undefined", 3)]
    assert "No overload" not in told["text"]


async def test_executors_are_given_the_names_that_code_will_have():
    step = ToolCall(id="a", tool="fs:read", arguments={"path": "x"})
    beside = ToolCall(id="b", tool="fs:read", arguments={"path": "x"})
    told, services = await examined(
        step,
        beside,
        code("c", "return a['x']", depends_on=("a",), inputs={"n": "{{a.total}}"}),
        known={"z": outcome("z")},
    )
    (asked,) = services.checked
    # Of `b` the code has no result, which is told by itself.
    assert asked.inputs == {"a": None, "b": None, "n": None, "z": None}
    assert told["ok"]


async def test_a_language_that_nobody_runs_is_told():
    missing = Verdict(problems=[Failure("executor.missing", "No installed plugin runs 'python' code.")])
    told, _ = await examined(code("c", "return 1"), verdicts={"c": missing})
    assert found(told) == [("c", "executor.missing", "No installed plugin runs 'python' code.", None)]
    assert "at" not in told["errors"][0]


@pytest.mark.parametrize("step", [CapabilityRun(id="k", capability_id="cap-1"), ToolCall(id="k", tool="caps:other")])
async def test_what_a_capability_runs_is_checked(step):
    runs = code("code", "return await tools.fs.raed(path='x')", tools=("fs:read",))
    wrong = Verdict(checked="types", problems=[failure("code.type", "No.", 7)])
    told, services = await examined(step, verdicts={"k": Verdict(becomes=runs), "code": wrong})
    assert [task.id for task in services.checked] == ["k", "code"]
    assert [(one[0], one[1], one[3]) for one in found(told)] == [("k", "tool.unknown", None), ("k", "code.type", 7)]
    assert told["steps"][0]["code_checked"] == "types"


async def test_a_tool_that_stands_for_a_capability_is_followed_to_its_code():
    """And keeps the effects that it says it has."""
    runs = code("code", "return await tools.fs.drop()")
    verdicts = {"s": Verdict(becomes=CapabilityRun(id="k", capability_id="1")), "k": Verdict(becomes=runs)}
    told, _ = await examined(ToolCall(id="s", tool="caps:sum"), verdicts=verdicts)
    assert told["ok"]
    assert (told["steps"][0]["calls"], told["steps"][0]["effect"]) == (["fs:drop"], "reads")


async def test_code_in_place_of_a_capability_is_checked_as_code():
    step = CapabilityRun(id="k", capability_id="cap-1", source="return (", language="typescript")
    wrong = Verdict(checked="syntax", problems=[failure("code.syntax", "Unexpected end.", 1)])

    class Services(PlanServices):
        async def check(self, task, session, *, within_s):
            if isinstance(task, Workflow):
                return await super().check(task, session, within_s=within_s)
            self.checked.append(task)
            return wrong if isinstance(task, CodeRun) else Verdict()

    services = Services(catalog=CATALOG)
    examiner = Preflights(services, Settings())
    told = (await examiner.of(Workflow(id="w", tasks=(step,)), FakeRun(dry_run=True))).to_report()
    assert [(one["task"], one["code"], one["line"]) for one in told["errors"]] == [("k", "code.syntax", 1)]


async def test_capabilities_that_become_each_other_come_to_an_end():
    step = CapabilityRun(id="k", capability_id="cap-1")
    told, services = await examined(step, verdicts={"k": Verdict(becomes=step)})
    assert told["ok"]
    assert len(services.checked) < 10


async def test_tools_of_servers_and_steps_that_have_run_are_not_asked_about():
    read = ToolCall(id="a", tool="fs:read", arguments={"path": "x"})
    done = code("b", "return 1")
    told, services = await examined(read, done, known={"b": outcome("b")})
    assert [task.id for task in services.checked] == []
    assert told["steps"][1]["already_done"]


async def test_code_is_checked_by_nobody_when_there_is_no_time_for_it():
    told, services = await examined(code("c", "return 1"), settings=Settings(check_code_s=0))
    assert (services.checked, told["steps"][0]["code_checked"]) == ([], "parsed")


async def test_steps_that_policy_stops_are_told_with_the_reason():
    told, _ = await examined(
        ToolCall(id="a", tool="fs:drop"),
        ToolCall(id="b", tool="fs:drop", step=Step(approve=True)),
        Workflow(id="n", tasks=(ToolCall(id="in", tool="fs:drop"),)),
        ToolCall(id="c", tool="fs:read", arguments={"path": "x"}),
        ToolCall(id="d", tool="fs:drop"),
        asking={"fs:drop": "policy: it says that it may destroy"},
        known={"d": outcome("d")},
    )
    steps = {step["id"]: step for step in told["steps"]}
    assert told["needs_approval"] == ["a", "b", "n/in"]
    assert steps["a"]["approval"] == "policy: it says that it may destroy"
    assert steps["b"]["approval"] == "the plan says so; policy: it says that it may destroy"
    assert "approval" not in steps["c"]
    assert "A human has to look at: a, b, n/in." in told["text"]
    assert "needs approval (policy: it says that it may destroy)" in told["text"]


async def test_calls_in_code_that_policy_stops_are_told():
    source = "await tools.fs.read(path='x')\nawait tools.fs.drop()\nreturn await tools.fs.drop()"
    told, _ = await examined(code("c", source), asking={"fs:drop": "policy: no"})
    assert told["steps"][0]["approval"] == "it calls fs:drop, and policy: no"
    assert told["needs_approval"] == ["c"]
