from __future__ import annotations

import argparse
import json

import pytest

from pml_costs import plugin
from pml_costs.checks import checks
from pml_costs.settings import Model, Price, Settings
from pml_hookspecs import InvalidArguments
from pml_testing.fakes import FakeCatalog, FakeServices, entry

pytestmark = pytest.mark.anyio
TOOLS = {
    "mail:send": Price(per_call_usd=0.01),
    "mind:*": Price(model="large", result_model="structuredContent.model"),
    "files:*": Price(),
}
MODELS = {"large": Model(input_per_million_usd=3)}


def services(**options):
    entries = [entry(tool) for tool in ("files:read", "mail:send", "mind:ask", "git:log", "pml:search_tools")]
    settings = Settings(**{"tools": TOOLS, "models": MODELS, **options})
    return FakeServices("costs", settings=settings, catalog=FakeCatalog(entries))


async def pml(*words, given=None):
    parser = argparse.ArgumentParser()
    plugin.pml_commands(parser.add_subparsers())
    arguments = parser.parse_args(["costs", *words])
    return await arguments.run_with(arguments, given or services())


async def test_what_is_priced_and_what_is_not(capsys):
    assert await pml("check", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    rows = {row["tool"]: row for row in told["tools"]}
    assert set(rows) == {"files:read", "mail:send", "mind:ask", "git:log"}
    assert rows["mail:send"] == {
        "tool": "mail:send", "priced": True, "pattern": "mail:send", "price": "0.01 USD a call"
    }  # fmt: skip
    assert rows["files:read"]["price"] == "free"
    assert rows["mind:ask"]["price"] == "tokens of large, as its result says"
    assert rows["git:log"] == {"tool": "git:log", "priced": False}
    assert told["models"]["large"]["input_per_million_usd"] == 3
    await pml("check")
    assert "3 of 4 tools have a price." in capsys.readouterr().out


async def test_what_a_plan_costs_at_least(tmp_path, capsys):
    inner = {"id": "in", "tasks": [{"id": "x", "tool": "mail__send", "for_each": [1, 2, 3]}]}
    tasks = [{"id": "a", "tool": "mail:send"}, inner, {"id": "b", "tool": "git:log"}, {"id": "c", "code": "return 1"}]
    tasks.append({"id": "d", "tool": "mail:send", "for_each": "{{a.list}}"})
    (tmp_path / "plan.json").write_text(json.dumps({"intent": "x", "workflow": {"tasks": tasks}}))
    assert await pml("estimate", str(tmp_path / "plan.json"), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["at_least_usd"] == 0.05
    assert told["unpriced"] == ["git:log"]
    assert [(row["task"], row["times"]) for row in told["tasks"]] == [("a", 1), ("x", 3), ("b", 1), ("d", None)]
    await pml("estimate", str(tmp_path / "plan.json"))
    assert "At least 0.05 USD" in capsys.readouterr().out


@pytest.mark.parametrize(("text", "words"), [("{", "is not JSON"), ("[]", "an object"), ("{}", "has no tasks")])
async def test_what_is_no_plan_is_said(tmp_path, text, words):
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(InvalidArguments, match=words):
        await pml("estimate", str(tmp_path / "plan.json"))


async def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(InvalidArguments, match="cannot be read"):
        await pml("estimate", str(tmp_path / "nothing.json"))


async def test_doctor_says_which_prices_mean_nothing():
    assert [(c.ok, c.title) for c in checks(services())] == [(True, "costs")]
    tools = {"mail:sent": Price(per_call_usd=1), "mind:*": Price(model="small"), "unseen:*": Price()}
    wrong = {c.title: c for c in checks(services(tools=tools))}
    assert wrong["price of mail:sent"].detail == "it fits no tool"
    assert wrong["price of mind:*"].detail == "there is no price of the model small"
    assert len(wrong) == 2
    assert list(checks(services(tools={}))) == []
