"""Rehearsals that read for real: their own steps are seen by later reads, where that is certain."""

from __future__ import annotations

import json

import pytest

from pml_dry_run.effects import Effect, identity_of, match
from pml_dry_run.rehearsal import Rehearsal
from pml_hookspecs import CapabilityRun, CodeRun, Status, ToolCall
from pml_kit.offers import Verdict
from pml_testing.fakes import FakeRun, entry

pytestmark = pytest.mark.anyio

READ_ONLY = {"annotations": {"readOnlyHint": True}}
ISSUE = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "title": {"type": "string"}, "state": {"type": "string"}},
    "required": ["id", "title", "state"],
}
ENTRIES = [
    entry("fs:read_file", **READ_ONLY),
    entry("fs:list_directory", **READ_ONLY),
    entry("fs:file_exists", **READ_ONLY),
    entry("fs:write_file"),
    entry("fs:append_file"),
    entry("fs:delete_file"),
    entry("git:get_issue", outputSchema=ISSUE, **READ_ONLY),
    entry("git:create_issue", outputSchema=ISSUE),
    entry("git:update_issue", outputSchema=ISSUE),
    entry("git:sync"),
]


def text(value):
    return {"content": [{"type": "text", "text": value}]}


def structured(**value):
    return {"content": [{"type": "text", "text": json.dumps(value)}], "structuredContent": value}


class Steps:
    """Calls of one rehearsal."""

    def __init__(self, made):
        self.made, self.count = made, 0
        made.dry_run.rehearsals()._open["whole"] = Rehearsal()

    async def __call__(self, tool, arguments=None, answer=None, **how):
        run = FakeRun(dry_run=True, parent="whole")
        run.reads_for_real, self.count = True, self.count + 1
        run.id = f"run-{self.count}"
        return await self.made.rehearse(tool, arguments, answer=answer, run=run, id_=f"s{self.count}", **how)

    def reached(self):
        """Tools that the servers were asked for since the last time."""
        tools = [task.tool for task in self.made.reached]
        self.made.reached.clear()
        return tools


@pytest.fixture
async def steps(kit):
    async with kit(ENTRIES) as made:
        yield Steps(made)


async def test_tools_that_only_read_run_and_others_do_not(steps):
    read = await steps("fs:read_file", {"path": "/a"}, text("old"))
    written = await steps("fs:write_file", {"path": "/a", "content": "new"})
    assert (read.status, dict(read.output)) == (Status.OK, text("old"))
    assert written.status is Status.SIMULATED
    assert written.output["_meta"]["pml/simulated"]["effect"] == {"what": "change", "of": {"path": "/a"}}
    assert steps.reached() == ["fs:read_file"]


async def test_what_a_step_would_have_written_is_read_back(steps):
    await steps("fs:write_file", {"path": "/a", "content": "new"})
    read = await steps("fs:read_file", {"path": "/a"}, text("old"))
    about = read.output["_meta"]["pml/simulated"]
    assert (read.status, read.output["content"]) == (Status.SIMULATED, text("new")["content"])
    assert (about["source"], about["base"], about["values"]) == ("journal", "real", {"": "journal"})
    assert about["journal"][0]["task_id"] == "s1"


async def test_of_several_changes_the_last_counts(steps):
    await steps("git:update_issue", {"id": 5, "title": "first"})
    await steps("git:update_issue", {"id": 5, "title": "second", "state": "closed"})
    read = await steps("git:get_issue", {"id": 5}, structured(id=5, title="old", state="open", author="ada"))
    about = read.output["_meta"]["pml/simulated"]
    assert read.output["structuredContent"] == {"id": 5, "title": "second", "state": "closed", "author": "ada"}
    assert about["values"] == {"/title": "journal", "/state": "journal"}
    assert json.loads(read.output["content"][1]["text"]) == read.output["structuredContent"]


async def test_what_would_have_been_created_is_found_without_asking_the_server(steps):
    made = (await steps("git:create_issue", {"title": "It breaks"})).output["structuredContent"]
    extra = {"_meta": {"pml/simulated": {"arguments": ["/issue_id"]}}}
    read = await steps("git:get_issue", {"issue_id": made["id"]}, extra=extra)
    assert read.output["structuredContent"] == made
    assert read.output["_meta"]["pml/simulated"]["source"] == "journal"
    assert steps.reached() == []


async def test_a_read_with_made_up_arguments_does_not_reach_the_server(steps):
    extra = {"_meta": {"pml/simulated": {"arguments": ["/id"]}}}
    read = await steps("git:get_issue", {"id": 1234}, structured(id=1234, title="not this", state=""), extra=extra)
    about = read.output["_meta"]["pml/simulated"]
    assert (read.status, about["source"], steps.reached()) == (Status.SIMULATED, "schema", [])
    assert "was not asked" in about["notes"][0]


async def test_reading_what_would_be_deleted_fails(steps):
    await steps("fs:delete_file", {"path": "/a"})
    read = await steps("fs:read_file", {"path": "/a"}, text("old"))
    assert (read.status, read.failure.code) == (Status.ERROR, "dry_run.deleted")
    assert "s1 (fs:delete_file)" in read.failure.message
    assert read.failure.details["pml/simulated"]["source"] == "journal"
    exists = await steps("fs:file_exists", {"path": "/a"}, text("true"))
    assert exists.output["_meta"]["pml/would_differ"][0]["effect"] == "delete"
    await steps("fs:write_file", {"path": "/a", "content": "again"})
    read = await steps("fs:read_file", {"path": "/a"}, text("old"))
    assert read.output["content"] == text("again")["content"]


@pytest.mark.parametrize(
    ("step", "read"),
    [
        (("fs:write_file", {"path": "/d/a", "content": "x"}), ("fs:list_directory", {"path": "/d"})),
        (("fs:write_file", {"path": "/d/a", "content": "x"}), ("fs:list_directory", {})),
        (("fs:append_file", {"path": "/a", "content": "x"}), ("fs:read_file", {"path": "/a"})),
        (("git:sync", {}), ("git:get_issue", {"id": 1})),
    ],
    ids=["folder", "everything", "appended", "unknown effect"],
)
async def test_a_read_that_may_see_a_difference_is_real_and_says_so(steps, step, read):
    await steps(*step)
    seen = await steps(*read, text("real"))
    assert (seen.status, seen.output["content"]) == (Status.OK, text("real")["content"])
    assert [effect["task_id"] for effect in seen.output["_meta"]["pml/would_differ"]] == ["s1"]


@pytest.mark.parametrize(
    "read",
    [("fs:read_file", {"path": "/b"}), ("fs:list_directory", {"path": "/ab"}), ("git:get_issue", {"id": 1})],
    ids=["another file", "another folder", "another server"],
)
async def test_other_reads_are_as_they_are(steps, read):
    await steps("fs:write_file", {"path": "/a", "content": "x"})
    assert dict((await steps(*read, text("real"))).output) == text("real")


async def test_another_rehearsal_knows_nothing_of_it(kit):
    async with kit(ENTRIES) as made:
        await Steps(made)("fs:write_file", {"path": "/a", "content": "new"})
        assert (await Steps(made)("fs:read_file", {"path": "/a"}, text("old"))).status is Status.OK


async def test_a_rehearsal_is_forgotten_when_it_is_over(kit):
    async with kit(ENTRIES) as made:
        await made.rehearse("fs:write_file", {"path": "/a"})
        assert made.dry_run.rehearsals()._open == {}


def test_what_says_which_thing_is_meant():
    given = {"userId": 5, "path": "/a", "valid": True, "content": "x", "limit": 3, "tags": ["a"]}
    assert identity_of(given) == {"userid": 5, "path": "/a"}


@pytest.mark.parametrize(
    ("effect", "read", "kind"),
    [
        ({"path": "/a"}, {"path": "/a"}, "certain"),
        ({"path": "/a", "id": 1}, {"path": "/a"}, "maybe"),
        ({"path": "/a/b"}, {"path": "/a"}, "maybe"),
        ({"path": "/a"}, {"path": "/ab"}, "none"),
        ({"path": "/a"}, {"id": 3}, "maybe"),
        ({}, {"id": 3}, "maybe"),
        ({"id": 3}, {}, "maybe"),
    ],
)
def test_matches(effect, read, kind):
    made = Effect("s", "s", "fs", "fs:write_file", "change", effect, effect, {}, None)
    assert match(made, ToolCall(id="r", tool="fs:read_file", arguments=read), ENTRIES[0]) == kind


async def code(steps, source, language="python", task=None):
    run = FakeRun(dry_run=True, parent="whole")
    run.reads_for_real, run.id = True, "run-code"
    made = task or CodeRun(id="c", language=language, source=source)
    return await steps.made.dry_run(made, run, None)


@pytest.mark.parametrize(
    ("source", "language"),
    [
        ("await tools.fs.read_file(path='/b')\nawait tools.fs.write_file(path='/b', content='x')", "python"),
        ("await tools['fs:delete_file']({ path: '/b' });", "typescript"),
    ],
)
async def test_reads_after_code_that_names_tools_with_effects_are_flagged(steps, source, language):
    await code(steps, source, language)
    read = await steps("fs:read_file", {"path": "/a"}, text("old"))
    assert (read.status, read.output["content"]) == (Status.OK, text("old")["content"])
    (flag,) = read.output["_meta"]["pml/would_differ"]
    assert (flag["task_id"], flag["of"]) == ("c", {})
    other = await steps("git:get_issue", {"id": 1}, structured(id=1, title="t", state="open"))
    assert "_meta" not in other.output


async def test_reads_after_code_that_names_only_reads_are_as_they_are(steps):
    await code(steps, "await tools.fs.read_file(path='/b')\nawait tools.no.such()")
    read = await steps("fs:read_file", {"path": "/a"}, text("old"))
    assert dict(read.output) == text("old")


async def test_the_code_of_a_capability_counts_as_code(steps):
    runs = CodeRun(id="code", language="python", source="await tools.fs.write_file(path='/b')")
    steps.made.services.verdicts = {"k": Verdict(becomes=runs)}
    await code(steps, "", task=CapabilityRun(id="k", capability_id="cap-1"))
    read = await steps("fs:read_file", {"path": "/a"}, text("old"))
    assert [flag["task_id"] for flag in read.output["_meta"]["pml/would_differ"]] == ["k"]
