"""``[servers.<name>] tools``: what it forbids is neither listed nor called."""

from __future__ import annotations

import pytest

from pml_catalog.exposure.tool_rules import ToolRules
from pml_hookspecs import Session, Status, ToolCall
from pml_kit.errors import OperatorError
from pml_settings.config import load
from pml_testing.gateway import Client, ScriptedServer, running

NAMES = ["read_file", "write_file", "drop_all", "@prompt/x"]


@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        (ToolRules(), NAMES),
        (ToolRules(allow=()), []),
        (ToolRules(allow=("read_*",)), ["read_file"]),
        (ToolRules(deny=("drop_*", "write_file")), ["read_file", "@prompt/x"]),
        (ToolRules(allow=("*_file",), deny=("write_*",)), ["read_file"]),
        (ToolRules(allow=("READ_*",)), []),
    ],
)
def test_deny_wins_over_allow_and_nothing_said_allows_all(rules, kept):
    assert [name for name in NAMES if rules.allows(name)] == kept


@pytest.mark.anyio
async def test_what_is_denied_is_not_listed_and_its_call_says_which_setting_refuses_it():
    server = ScriptedServer(NAMES)
    async with running({"fs": server}, settings={"tools": ToolRules(deny=("drop_*", "@*"))}) as made:
        session = Session(key="k", principal="alice")
        visible = made.catalog.visible(session)
        assert {"fs:read_file", "fs:write_file"} <= set(visible)
        assert not {"fs:drop_all", "fs:@prompt/x"} & set(visible)
        for name in ("fs__drop_all", "fs:drop_all", "drop_all", "fs:@prompt/x"):
            result = await made.dispatcher.start(ToolCall(id="t", tool=name), session)
            assert result.status is Status.DENIED
            assert (result.failure.code, "[servers.fs] tools" in result.failure.message) == ("policy.denied", True)
        assert (await Client(made).call("fs__drop_all"))["isError"] is True
        assert server.calls == []


@pytest.mark.anyio
async def test_rules_about_tools_say_nothing_of_resources_and_prompts():
    async with running({"fs": ScriptedServer(["read"])}, settings={"tools": ToolRules(allow=())}) as made:
        session = Session(key="k", principal="alice")
        assert made.allows("fs:@resource/file:///x", session)
        assert made.allows("fs:@prompt/x", session)
        assert not made.allows("fs:read", session)


def test_the_table_is_read_from_a_file(place):
    place.users("config.toml", '[servers.a]\ncommand = "x"\ntools = { allow = ["read_*"], deny = ["read_all"] }\n')
    assert load().servers["a"].tools == ToolRules(allow=("read_*",), deny=("read_all",))


@pytest.mark.parametrize("table", ['["read"]', "{ alow = [] }", '{ allow = "read" }'])
def test_a_mistake_in_it_is_named_with_its_place(place, table):
    place.users("config.toml", f'[servers.a]\ncommand = "x"\ntools = {table}\n')
    with pytest.raises(OperatorError, match=r"servers\.a\.tools"):
        load()
