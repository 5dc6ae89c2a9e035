"""Tools that do not exist are mistakes of the plan, found before anything runs."""

from __future__ import annotations

import pytest

from pml_hookspecs import CodeRun, ServerStatus, Status, Step, ToolCall, Workflow
from pml_testing.fakes import FakeCatalog, entry

pytestmark = pytest.mark.anyio
SERVERS = [
    ServerStatus(name="lab", state="up", tools=2),
    ServerStatus(name="later", state="starting"),
    ServerStatus(name="lazy", state="idle", tools=1),
    ServerStatus(name="never", state="idle"),
    ServerStatus(name="off", state="down", reason="it ended"),
]
ENTRIES = [entry("lab:people"), entry("lab:add"), entry("lazy:look"), entry("capability:count_people")]


@pytest.fixture
def here(world):
    return world(catalog=FakeCatalog(ENTRIES, SERVERS))


def call(tool, id_="x", **step):
    return ToolCall(id=id_, tool=tool, step=Step(**step)) if step else ToolCall(id=id_, tool=tool)


@pytest.mark.parametrize(
    ("task", "told"),
    [
        (call("nope:x"), "tasks[1].tool: there is no server 'nope'; servers: lab, later, lazy, never, off"),
        (call("lab:peple"), "tasks[1].tool: server 'lab' has no tool 'lab:peple'; did you mean 'lab:people'?"),
        (call("lab__peple"), "tasks[1].tool: server 'lab' has no tool 'lab__peple'; did you mean 'lab:people'?"),
        (call("labs:people"), "there is no server 'labs'; servers: lab, later, lazy, never, off; did you mean 'lab:"),
        (call("lazy:lok"), "tasks[1].tool: server 'lazy' has no tool 'lazy:lok'; did you mean 'lazy:look'?"),
        (call("capability:gone"), "tasks[1].tool: 'capability' has no tool 'capability:gone'; did you mean"),
        (call("lab:add", compensate=call("lab:remove")), "tasks[1].compensate.tool: server 'lab' has no tool"),
        (Workflow(id="in", tasks=(call("lab:add"), call("lab:x", "y"))), "tasks[1].tasks[1].tool: server 'lab' has no"),
        (
            call("lab:add", compensate=Workflow(id="", tasks=(call("lab:x"),))),
            "tasks[1].compensate.tasks[0].tool: server 'lab' has no tool 'lab:x'",
        ),
    ],
)  # fmt: skip
async def test_a_tool_that_does_not_exist_is_a_mistake_and_nothing_runs(here, make, task, told):
    ended = await here.execute(make.flow(call("lab:people", "first"), task))
    assert (ended.status, ended.failure.code, here.ran()) == (Status.ERROR, "workflow.invalid", [])
    assert told in ended.failure.message


@pytest.mark.parametrize("tool", ["later:any", "later__any", "never:any", "off:any", "any", "lab__people", "lazy:look"])
async def test_a_tool_that_may_exist_is_found_out_about_when_it_is_called(here, make, tool):
    ended = await here.execute(make.flow(call("lab:people", "first"), call(tool)))
    assert (ended.status, here.ran()) == (Status.OK, ["first", "x"])


async def test_a_tool_without_a_server_is_missing_when_every_server_says_what_it_has(world, make):
    here = world(catalog=FakeCatalog(ENTRIES, SERVERS[:1]))
    ended = await here.execute(make.flow(call("peeple")))
    assert "tasks[0].tool: there is no tool 'peeple'" in ended.failure.message


async def test_all_mistakes_are_told_at_once(here, make):
    ended = await here.execute(
        make.flow(call("nope:x", "a"), call("lab:y", "b"), ToolCall(id="c", tool="s:t", depends_on=("q",)))
    )
    assert "the workflow has 4 mistakes" in ended.failure.message


async def test_what_somebody_may_not_have_is_not_suggested(here, make):
    here.services.catalog.denied.add("lab:people")
    ended = await here.execute(make.flow(call("lab:peple")))
    assert "lab:people'" not in ended.failure.message


async def test_a_rehearsal_goes_through_and_tells_of_each_task(here, make):
    ended = await here.execute(make.flow(call("lab:peple")), dry_run=True)
    assert ended.output is not None


async def test_code_names_no_tools(here, make):
    ended = await here.execute(make.flow(CodeRun(id="c", language="python", source="", tools=("nope:*",))))
    assert ended.status is Status.OK
