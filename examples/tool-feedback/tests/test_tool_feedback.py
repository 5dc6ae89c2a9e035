from __future__ import annotations

import argparse
import json

import pytest

import pml_example_tool_feedback as plugin
from pml_hookspecs import InvalidArguments
from pml_testing.fakes import FakeRun

pytestmark = pytest.mark.anyio
READ = "s00:read_thing_000"


@pytest.fixture
def report(services):
    (tool,) = plugin.pml_meta_tools(services)
    return lambda run=None, **arguments: tool.call(arguments, run or FakeRun())


async def shown(services, *words):
    """What ``pml feedback`` does with these words."""
    parser = argparse.ArgumentParser()
    plugin.pml_commands(parser.add_subparsers())
    arguments = parser.parse_args(["feedback", *words])
    return await arguments.run_with(arguments, services)


async def test_a_report_is_kept_and_listed(report, services, capsys):
    answer = await report(tool="s00__read_thing_000", problem=" it read another thing ")
    assert answer["kept"]
    await report(tool="s01:write_thing_001", problem="größer")
    assert await shown(services, "--tool", READ) == 0
    line = capsys.readouterr().out
    assert f"{READ}  it read another thing  (local)" in line
    assert "größer" not in line
    assert await shown(services, "--json") == 0
    assert [one["tool"] for one in json.loads(capsys.readouterr().out)] == ["s01:write_thing_001", READ]


async def test_nothing_reported_is_said_so(services, capsys):
    for words, said in (([], "No reports.\n"), (["--json"], "[]\n")):
        assert await shown(services, *words) == 0
        assert capsys.readouterr().out == said


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"tool": "nobody:knows", "problem": "x"}, "tool: there is no tool 'nobody:knows'"),
        ({"problem": "x"}, "tool: there is no tool ''"),
        ({"tool": READ, "problem": "  "}, "problem: say in 1 to 2000 characters"),
        ({"tool": READ, "problem": "x" * 2001}, "problem: say in 1 to 2000 characters"),
    ],
)
async def test_a_report_about_nothing_is_refused(report, store, arguments, problem):
    with pytest.raises(InvalidArguments, match=problem):
        await report(**arguments)
    assert (await store.documents.find(plugin.REPORTS)).total == 0


async def test_a_tool_that_the_client_may_not_have_is_no_tool(report, catalog):
    catalog.denied.add(READ)
    with pytest.raises(InvalidArguments, match="there is no tool"):
        await report(tool=READ, problem="x")


async def test_a_rehearsal_keeps_nothing(report, store):
    assert not (await report(FakeRun(dry_run=True), tool=READ, problem="x"))["kept"]
    assert (await store.documents.find(plugin.REPORTS)).total == 0


async def test_clients_call_it_like_any_other_tool(gateway, store):
    async with gateway([plugin]) as client:
        assert "report_tool_problem" in await client.tools()
        answer = await client.call("report_tool_problem", {"tool": "files__read_file", "problem": "slow"})
        assert answer["structuredContent"]["kept"]
        wrong = await client.call("report_tool_problem", {"tool": "files__reed_file", "problem": "slow"})
        assert wrong["isError"]
        assert "there is no tool" in wrong["content"][0]["text"]
    (kept,) = (await store.documents.find(plugin.REPORTS)).items
    assert kept.value["tool"] == "files:read_file"
