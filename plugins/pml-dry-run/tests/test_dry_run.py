from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pml_dry_run import plugin
from pml_hookspecs import CapabilityRun, CodeRun, Phase, RawObject, Status, ToolCall, Workflow, encode
from pml_testing.fakes import FakeCatalog, FakeRun, FakeServices, entry, outcome
from pml_testing.work import counted
from pml_testing.wrapper import WrapperContract

pytestmark = pytest.mark.anyio

ITEMS = {
    "type": "object",
    "properties": {"items": {"type": "array", "items": {"type": "string"}}},
    "required": ["items"],
}
CATALOG = FakeCatalog(
    [
        entry("fs:read"),
        entry("fs:list", outputSchema=ITEMS),
        entry(
            "fs:odd", outputSchema={"type": "object", "required": ["x"], "properties": {"x": {"pattern": "^(?=y)z$"}}}
        ),
        entry("fs:text", outputSchema={"type": "string"}),
        entry("fs:wrong", outputSchema="none"),
        entry("fs:peek", annotations={"readOnlyHint": True}),
        entry("pml:search_tools", annotations={"readOnlyHint": True}),
        entry("pml:write_note", annotations={"readOnlyHint": False}),
        entry("pml:unmarked"),
        entry("pml:oddly_marked", annotations=True),
    ]
)


@dataclass(frozen=True)
class OtherTask:
    id: str
    depends_on: tuple[str, ...] = ()


class Next:
    """The rest of the chain; counts what reaches it."""

    def __init__(self):
        self.calls = []

    async def __call__(self, task, run):
        self.calls.append((task, run))
        return outcome(task.id, "really ran")


class TestDryRunKeepsTheContract(WrapperContract):
    @pytest.fixture(params=[0, 1], ids=["dry run", "recorder"])
    def wrapper(self, request):
        return plugin.pml_wrap_executor(FakeServices(catalog=CATALOG))[request.param]

    @pytest.fixture
    def tasks(self):
        return [ToolCall(id=e.name, tool=e.id) for e in CATALOG]


def wrapper(catalog=CATALOG, **settings):
    services = FakeServices(catalog=catalog, settings=plugin.settings_type(**settings))
    return plugin.pml_wrap_executor(services)[0]


async def rehearse(task, *, dry_run=True):
    following = Next()
    run = FakeRun(dry_run=dry_run)
    return await wrapper()(task, run, following), following.calls


def test_one_wrapper_sits_inside_the_checks_and_one_next_to_the_tools():
    assert [w.phase for w in plugin.pml_wrap_executor(FakeServices())] == [Phase.SUBSTITUTE, Phase.ADAPT]


async def test_a_simulated_call_names_the_tool_and_says_what_it_is():
    ended, calls = await rehearse(ToolCall(id="t1", tool="fs:read"))
    assert calls == []
    about = ended.output["_meta"]["pml/simulated"]
    (warning,) = about.pop("warnings")
    assert "Nothing tells what fs:read would return" in warning
    assert ended.output["content"] == [{"type": "text", "text": "Simulated execution of fs:read"}]
    assert about == {
        "source": "placeholder",
        "mocked": True,
        "tool": "fs:read",
        "task_id": "t1",
        "status": "completed",
    }
    assert (ended.task_id, ended.status, ended.failure) == ("t1", Status.SIMULATED, None)
    assert ended.started_at.utcoffset() == timedelta(0)
    assert type(ended.duration_ms) is int


async def test_a_tool_with_an_output_schema_answers_with_a_value_of_that_shape():
    ended, _ = await rehearse(ToolCall(id="t1", tool="fs:list"))
    items = ended.output["structuredContent"]["items"]
    assert len(set(items)) == 2
    assert all(item.startswith("Simulated items ") for item in items)
    said, spelled = [block["text"] for block in ended.output["content"]]
    assert (said, json.loads(spelled)) == ("Simulated execution of fs:list", {"items": items})
    assert ended.output["_meta"]["pml/simulated"]["source"] == "schema"


@pytest.mark.parametrize("tool", ["fs:odd", "fs:text", "fs:wrong", "fs:unknown"])
async def test_when_no_value_can_be_made_up_there_is_the_placeholder(tool):
    ended, _ = await rehearse(ToolCall(id="t1", tool=tool))
    assert "structuredContent" not in ended.output
    assert ended.output["content"] == [{"type": "text", "text": f"Simulated execution of {tool}"}]
    assert ended.output["_meta"]["pml/simulated"]["source"] == "placeholder"


@pytest.mark.parametrize(
    ("task", "text"),
    [
        (CodeRun(id="t1", language="python", source="rm()"), "Simulated execution of python code"),
        (CapabilityRun(id="t1", capability_id="tidy"), "Simulated execution of capability tidy"),
        (OtherTask("t1"), "Simulated execution of OtherTask"),
    ],
)
async def test_code_capabilities_and_kinds_yet_unknown_are_not_run_either(task, text):
    ended, calls = await rehearse(task)
    assert calls == []
    assert (ended.status, ended.output) == (Status.SIMULATED, text)
    about = ended.meta["pml/simulated"]
    assert (about["source"], about["mocked"], about["task_id"]) == ("placeholder", True, "t1")
    assert "not run in a dry run" in about["notes"][0]


@pytest.mark.parametrize(
    "task",
    [Workflow(id="w", tasks=(ToolCall(id="a", tool="fs:read"),)), ToolCall(id="s", tool="pml:search_tools")],
    ids=["workflow", "own tool that only reads"],
)
async def test_what_has_no_effects_of_its_own_goes_on(task):
    ended, calls = await rehearse(task)
    assert [given for given, _ in calls] == [task]
    assert ended.output == "really ran"


@pytest.mark.parametrize("tool", ["pml:write_note", "pml:unmarked", "pml:oddly_marked", "fs:peek"])
async def test_other_tools_stop_here_whatever_a_server_says_of_them(tool):
    ended, calls = await rehearse(ToolCall(id="t", tool=tool))
    assert (ended.status, calls) == (Status.SIMULATED, [])


@pytest.mark.parametrize("tool", ["fs:read", "fs:list", "pml:write_note"])
async def test_outside_a_dry_run_nothing_changes(tool):
    task = ToolCall(id="t", tool=tool, arguments=RawObject(b"{}"))
    ended, calls = await rehearse(task, dry_run=False)
    assert calls[0][0] is task
    assert ended.output == "really ran"


async def test_the_same_call_is_answered_the_same_way_each_time():
    first, second = [(await rehearse(ToolCall(id="t", tool="fs:list")))[0].output for _ in range(2)]
    assert encode(first) == encode(second)


@settings(max_examples=50, deadline=None)
@given(
    ids=st.lists(st.sampled_from([e.id for e in CATALOG] + ["fs:nothing", ""])),
    arguments=st.dictionaries(st.text(max_size=3), st.none() | st.integers() | st.text(max_size=3)),
)
def test_no_task_of_a_dry_run_reaches_a_server(ids, arguments):
    async def run_all():
        return [(await rehearse(ToolCall(id="t", tool=tool, arguments=arguments)))[1] for tool in ids]

    reached = [task.tool for calls in asyncio.run(run_all()) for task, _ in calls]
    assert set(reached) <= {"pml:search_tools"}


async def test_what_a_rehearsed_call_takes_grows_with_its_schema_and_not_with_the_calls_before():
    def wide(count):
        return {"type": "object", "properties": {f"p{i}": ITEMS for i in range(count)}}

    rehearsing = wrapper(FakeCatalog([entry(f"s:t{n}", outputSchema=wide(n)) for n in (20, 40)]))
    run, following = FakeRun(dry_run=True), Next()

    async def calls(tool, id):
        with counted() as work:
            await rehearsing(ToolCall(id=id, tool=tool), run, following)
        return work.calls

    each = [await calls("s:t20", f"t{i}") for i in range(20)]
    assert each[-1] <= each[0] < 20_000
    assert await calls("s:t40", "wide") < 3 * each[0]


@pytest.mark.parametrize(
    ("level", "asked"), [("strict", None), ("warn", "strict"), ("strict", "warn"), ("warn", "loose")]
)
async def test_a_call_says_how_a_miss_is_treated_or_else_the_settings_do(level, asked):
    extra = {} if asked is None else {"_meta": {"pml/dry_run_level": asked}}
    for task in (ToolCall(id="t", tool="fs:read", extra=extra), CodeRun(id="t", language="python", source="x")):
        ended = await wrapper(level=level)(task, FakeRun(dry_run=True), Next())
        strict = (asked or level) == "strict" if isinstance(task, ToolCall) else level == "strict"
        assert (ended.status is Status.ERROR) is strict
        if strict:
            assert ended.failure.code == "dry_run.miss"
            assert ended.failure.details["pml/simulated"]["source"] == "none"
        elif isinstance(task, ToolCall):
            assert ("warnings" in ended.output["_meta"]["pml/simulated"]) is (asked == "warn")


@pytest.mark.parametrize("asked", ["Strict", True, 1, ["strict"], {}])
async def test_a_level_that_there_is_not_is_refused(asked):
    ended, calls = await rehearse(ToolCall(id="t", tool="fs:read", extra={"_meta": {"pml/dry_run_level": asked}}))
    assert (ended.status, ended.failure.code, calls) == (Status.ERROR, "dry_run.level", [])
    assert "strict, warn, loose" in ended.failure.message


@pytest.mark.parametrize(("level", "asked"), [("warn", "strict"), ("strict", "loose")])
async def test_the_request_says_how_misses_in_all_of_it_are_treated(level, asked):
    run = FakeRun(dry_run=True, meta={"pml/dry_run_level": asked})
    for task in (ToolCall(id="t", tool="fs:read"), CodeRun(id="t", language="python", source="x")):
        ended = await wrapper(level=level)(task, run, Next())
        assert (ended.status is Status.ERROR) is (asked == "strict")
    own = ToolCall(id="t", tool="fs:read", extra={"_meta": {"pml/dry_run_level": "loose"}})
    assert (await wrapper()(own, run, Next())).status is Status.SIMULATED


async def test_a_level_that_there_is_not_is_refused_for_code_too():
    run = FakeRun(dry_run=True, meta={"pml/dry_run_level": "lax"})
    ended = await wrapper()(CodeRun(id="t", language="python", source="x"), run, Next())
    assert (ended.status, ended.failure.code) == (Status.ERROR, "dry_run.level")
