from __future__ import annotations

import argparse
import json

import pytest
from lessons import Gateway, capability, code, run_of, some_catalog

from pml_capabilities import Capabilities, Settings, plugin
from pml_capabilities.capability import to_value
from pml_capabilities.inputs import schema_of
from pml_capabilities.library import COLLECTION, Library
from pml_hookspecs import CapabilityRun, InvalidArguments, replace
from pml_testing.fakes import FakeServices

pytestmark = pytest.mark.anyio


async def run(store, *words, **settings):
    parser = argparse.ArgumentParser()
    plugin.pml_commands(parser.add_subparsers())
    arguments = parser.parse_args(["capabilities", *map(str, words)])
    services = FakeServices(settings=Settings(**settings), catalog=some_catalog(), store=store)
    assert await arguments.run_with(arguments, services) == 0
    return services


async def kept(store, id="c1", **more):
    made = capability(id, **more)
    await store.documents.put(COLLECTION, made.id, to_value(made), marks={"name": made.name, "owner": made.owner})
    return made


async def everything(store):
    return {one.id: one for one in await Library(store.documents).all()}


def tools(*names):
    return {name: some_catalog().get(name).digest for name in names}


async def exported(store, tmp_path, *words):
    await run(store, "export", *words, "-o", tmp_path / "out.json")
    return json.loads((tmp_path / "out.json").read_text("utf-8"))


async def test_what_is_exported_is_imported_as_somebodys_own_and_proves_itself_again(store, tmp_path, capsys):
    made = await kept(store, code="return 7 + n", inputs=schema_of({"n": 1}), tools=tools("files:read"), successes=9)
    document = await exported(store, tmp_path)
    assert (tmp_path / "out.json").stat().st_mode & 0o077 == 0
    await Library(store.documents).forget(made.id)
    capsys.readouterr()
    services = await run(store, "import", tmp_path / "out.json", "--principal", "bob")
    told = capsys.readouterr().out
    for line in ("For bob, from", "learned by alice, as the file says", "calls files:read (as here)", "takes n", "c1"):
        assert line in told
    (taken,) = (await everything(store)).values()
    assert (taken.name, taken.code, taken.tools, taken.source) == ("c1", "return 7 + n", made.tools, "alice")
    assert (taken.principals, taken.runs, taken.proven(Settings())) == ({"bob"}, 0, False)
    assert [(event.code, event.details["from"]) for event in services.access] == [("capability.imported", "alice")]
    assert document["capabilities"][0]["learned_by"] == ["alice"]
    # The same code of the same person adds up with it.
    gateway = Gateway(store)
    await gateway.ran(code("return 7 + n", inputs={"n": 1}), run_of(principal="bob"), calls=["files:read"])
    assert (await gateway.learned()).successes == 1
    await gateway.services.stop()


async def test_what_is_vouched_for_is_shown_at_once(store, tmp_path):
    await kept(store, tools=tools("files:read"))
    await exported(store, tmp_path)
    await run(store, "import", tmp_path / "out.json", "--principal", "bob", "--proven")
    gateway = Gateway(store)
    await gateway.publisher.look()
    assert [name.partition("-")[0] for name in gateway.tools] == ["c1"]
    await gateway.services.stop()


async def test_a_dry_run_takes_nothing_and_what_is_known_is_left_alone(store, tmp_path, capsys):
    await kept(store)
    await exported(store, tmp_path)
    await run(store, "import", tmp_path / "out.json", "--principal", "bob", "--dry-run")
    assert "Nothing was taken" in capsys.readouterr().out
    assert set(await everything(store)) == {"c1"}
    await run(store, "import", tmp_path / "out.json", "--principal", "bob")
    before = await everything(store)
    capsys.readouterr()
    await run(store, "import", tmp_path / "out.json", "--principal", "bob", "--proven", "--json")
    assert [len(found) for found in json.loads(capsys.readouterr().out).values()] == [0, 1]
    assert await everything(store) == before


async def test_those_that_are_named_are_exported_else_all_that_hold(store, tmp_path, capsys):
    await kept(store, "a1")
    await kept(store, "b2", principals=frozenset({"bob"}))
    await kept(store, "c3", retired="gone")
    for words, names in (
        ((), ["a1", "b2"]),
        (("--principal", "bob"), ["b2"]),
        (("a1", "c3"), ["a1", "c3"]),
    ):
        assert [one["name"] for one in (await exported(store, tmp_path, *words))["capabilities"]] == names
    capsys.readouterr()
    await run(store, "export", "a1")
    assert json.loads(capsys.readouterr().out)["format"] == "pml.capabilities"


GOOD = {
    "name": "c1", "intents": ["count"], "language": "python", "program": False, "code": "return 1",
    "inputs": {"type": "object", "properties": {}}, "tools": {"files:read": "d"}, "learned_by": ["alice"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "was not written by `pml capabilities export`"),
        ('{"format": "pml.capabilities", "version": 2}', "has the version 2; this PML reads 1"),
        ('{"format": "pml.capabilities", "version": 1, "capabilities": {}}', "capabilities must be a list"),
        ('{"format": "pml.capabilities", "version": 1, "capabilities": [NaN]}', "NaN is no value of JSON"),
        ([7], "capabilities[0] must be an object"),
        ([GOOD, {**GOOD, "code": " "}], "capabilities[1].code must be text"),
        ([{**GOOD, "code": "x" * 50_001}], "capabilities[0].code must be text, at most 50000 characters"),
        ([{**GOOD, "code": "\ud800"}], "capabilities[0].code must be text"),
        ([{**GOOD, "name": "Drop it"}], "capabilities[0].name must be lower case letters"),
        ([{**GOOD, "name": "a-2bd806"}], "capabilities[0].name must be lower case letters"),
        ([{**GOOD, "intents": []}], "capabilities[0].intents must be 1 to 5 lines"),
        ([{**GOOD, "intents": ["a\x1b[2J"]}], "capabilities[0].intents must be 1 to 5 lines"),
        ([{**GOOD, "tools": ["files:read"]}], "capabilities[0].tools must be an object"),
        ([{**GOOD, "tools": {"read": "d"}}], "capabilities[0].tools must be an object"),
        ([{**GOOD, "inputs": {"$ref": "https://example.com"}}], "capabilities[0].inputs must be a schema"),
        (
            [{**GOOD, "inputs": {"type": "object", "properties": {"a": {"pattern": "(a+)+"}}}}],
            "inputs must be a schema",
        ),
        ([{**GOOD, "inputs": {"type": "object", "properties": {}, "required": ["a"]}}], "inputs must be a schema"),
        ([{**GOOD, "program": "no"}], "capabilities[0].program must be true or false"),
        ([{k: v for k, v in GOOD.items() if k != "language"}], "capabilities[0].language is missing"),
        ([{**GOOD, "learned_by": "alice"}], "capabilities[0].learned_by must be a list of names"),
        ([GOOD] * 1001, "must be a list of at most 1000"),
    ],
)
async def test_what_is_malformed_is_refused_as_a_whole(store, tmp_path, text, problem):
    if not isinstance(text, str):
        text = json.dumps({"format": "pml.capabilities", "version": 1, "capabilities": text})
    (tmp_path / "in.json").write_text(text, "utf-8")
    with pytest.raises(InvalidArguments) as refused:
        await run(store, "import", tmp_path / "in.json")
    assert problem in str(refused.value)
    assert str(tmp_path / "in.json") in str(refused.value)
    assert not await everything(store)


async def test_files_that_cannot_be_read_or_written_are_said(store, tmp_path):
    with pytest.raises(InvalidArguments, match="cannot be read: No such file"):
        await run(store, "import", tmp_path / "none.json")
    with pytest.raises(InvalidArguments, match="cannot be written: Is a directory"):
        await run(store, "export", "-o", tmp_path)


@pytest.mark.attack(
    "A key sees its scope", "give a capability to one who did not ask, or take the id and the name of hers"
)
async def test_an_import_changes_nothing_of_anybody_else(store, tmp_path):
    gateway = Gateway(store)
    await gateway.ran(code("return f()"), run_of(principal="alice"))
    hers = await gateway.learned()
    forged = {**GOOD, "id": hers.id, "principals": ["alice"], "code": "return evil()", "name": hers.name}
    same = {**GOOD, "language": "javascript", "code": "return f()", "name": hers.name, "tools": {"files:write": "d"}}
    document = {"format": "pml.capabilities", "version": 1, "capabilities": [forged, same]}
    (tmp_path / "in.json").write_text(json.dumps(document), "utf-8")
    await run(store, "import", tmp_path / "in.json", "--principal", "bob", "--proven")
    found = await everything(store)
    assert found.pop(hers.id) == hers
    assert [one.principals for one in found.values()] == [{"bob"}] * 2
    assert not any(one.visible("alice", Settings()) for one in found.values())
    await gateway.services.stop()


@pytest.mark.attack("A key sees its scope", "import code that says it only reads, and have it write")
async def test_imported_code_may_call_what_it_names_and_is_shown_as_that(store, tmp_path):
    document = {"format": "pml.capabilities", "version": 1, "capabilities": [{**GOOD, "tools": tools("files:write")}]}
    (tmp_path / "in.json").write_text(json.dumps(document), "utf-8")
    await run(store, "import", tmp_path / "in.json", "--principal", "alice", "--proven")
    gateway = Gateway(store)
    await gateway.publisher.look()
    (tool,) = gateway.tools.values()
    assert tool.definition["annotations"]["readOnlyHint"] is False
    ran = run_of()
    executor = Capabilities(Settings(), gateway.services)
    await executor.execute(CapabilityRun(id="t", capability_id=tool.task({}).capability_id), ran)
    (task,) = ran.dispatched
    assert task.tools == ("files:write",)
    await gateway.services.stop()


async def test_one_is_renamed_and_no_other_has_that_name(store, capsys):
    await kept(store, "c1", name="count_issues")
    await kept(store, "c2", name="taken")
    await kept(store, "c3", name="bobs", principals=frozenset({"bob"}))
    services = await run(store, "rename", "count_issues", "bobs")
    assert "c1 is called bobs now, capability__bobs-2bd806 as a tool." in capsys.readouterr().out
    assert (await everything(store))["c1"].name == "bobs"
    assert services.access[0].details | {"name": "count_issues", "to": "bobs"} == services.access[0].details
    with pytest.raises(InvalidArguments, match="'taken' is the name of another capability of alice"):
        await run(store, "rename", "c1", "taken")
    with pytest.raises(InvalidArguments, match="'Not This' is no name of a capability: lower case"):
        await run(store, "rename", "c1", "Not This")
    with pytest.raises(InvalidArguments, match=r"'bobs' means c1 of alice, c3 of bob; give .* --principal"):
        await run(store, "rename", "bobs", "other")
    await run(store, "rename", "bobs", "other", "--principal", "bob")
    assert (await everything(store))["c3"].name == "other"


async def test_what_is_switched_off_is_neither_run_nor_shown_until_it_is_on_again(store, capsys):
    made = await kept(store, successes=9, tools=tools("files:read"))
    gateway = Gateway(store)
    executor = Capabilities(Settings(), gateway.services)
    for verb, shown, failed in (("disable", 0, "capability.disabled"), ("enable", 1, "")):
        services = await run(store, verb, "c1")
        gateway.publisher.changed()
        await gateway.publisher.look()
        ended = await executor.execute(CapabilityRun(id="t", capability_id=made.id), run_of())
        assert (len(gateway.tools), ended.failure.code if ended.failure else "") == (shown, failed)
        assert [event.code for event in services.access] == [f"capability.{verb}d"]
    await run(store, "disable", "c1")
    capsys.readouterr()
    await run(store, "list")
    assert "disabled" in capsys.readouterr().out
    await run(store, "show", "c1")
    assert "Switched off; `pml capabilities enable c1`" in capsys.readouterr().out
    await gateway.services.stop()


async def test_learning_does_not_switch_on_what_was_switched_off(gateway, store):
    await gateway.ran(code(), run_of(), calls=["files:read"])
    (known,) = await everything(store)
    await run(store, "disable", known)
    for tool in ("files:read", "web:get"):
        await gateway.ran(code(), run_of(), calls=[tool])
        assert (await gateway.learned()).disabled


async def test_the_list_says_whose_they_are_where_several_have_some(store, capsys):
    await kept(store, "c1")
    await kept(store, "c2", principals=frozenset({"bob"}))
    await run(store, "list")
    header, *rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert header[2] == "WHOSE"
    assert sorted(row[2] for row in rows) == ["alice", "bob"]
    await run(store, "list", "--principal", "bob")
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == ["NAME", "c2"]
    await run(store, "forget", "--all", "--principal", "bob")
    assert set(await everything(store)) == {"c1"}


def tool(services, name):
    (found,) = (one for one in plugin.pml_meta_tools(services) if one.definition["name"] == name)
    return found.call


def caller(principal, *scopes):
    made = run_of(principal=principal)
    made.session = replace(made.session, scopes=frozenset(scopes))
    return made


async def test_a_tool_tells_of_what_is_the_callers_and_operators_of_all(store):
    await kept(store, code="return 1")
    tell = tool(FakeServices(settings=Settings(), catalog=some_catalog(), store=store), "list_capabilities")
    for who, total in ((caller("alice"), 1), (caller("bob"), 0), (caller("boss", "system"), 1)):
        assert (await tell({}, who))["total"] == total
    (one,) = (await tell({"capability_id": "c1"}, caller("alice")))["capabilities"]
    assert (one["code"], one["disabled"]) == ("return 1", False)
    with pytest.raises(InvalidArguments, match="no capability 'c1' of yours"):
        await tell({"capability_id": "c1"}, caller("bob"))
    for bad in ({"limit": 0}, {"limit": True}, {"capability_id": 1}):
        with pytest.raises(InvalidArguments):
            await tell(bad, caller("alice"))


async def test_an_operator_switches_by_tool_and_it_is_reported_who(store):
    await kept(store)
    services = FakeServices(settings=Settings(), catalog=some_catalog(), store=store)
    switch = tool(services, "switch_capability")
    with pytest.raises(InvalidArguments, match="lacks the scope 'operate'"):
        await switch({"capability_id": "c1", "enabled": False}, caller("alice"))
    with pytest.raises(InvalidArguments, match="no capability 'c1'"):
        await switch({"capability_id": "c1", "enabled": False}, caller("bob", "operate"))
    boss = caller("boss", "system", "operate")
    assert await switch({"capability_id": "c1", "enabled": False}, boss) == {"capability_id": "c1", "disabled": True}
    assert (await everything(store))["c1"].disabled
    assert [(event.code, event.details["by"]) for event in services.access] == [("capability.disabled", "boss")]
    for bad in ({"capability_id": "c2", "enabled": True}, {"capability_id": "c1"}, {"enabled": True}):
        with pytest.raises(InvalidArguments):
            await switch(bad, boss)
