from __future__ import annotations

import asyncio

import pytest
from lessons import READ, Gateway, capability, catalog_of, code, run_of, some_catalog

from pml_capabilities.capability import Capability, SuccessfulRun, learned, to_value
from pml_capabilities.library import COLLECTION, by_intent
from pml_capabilities.publisher import META, best_of_alike
from pml_capabilities.settings import Settings
from pml_capabilities.tools import floor
from pml_hookspecs import CapabilityRun, InvalidArguments, Session, replace
from pml_testing.fakes import entry

pytestmark = pytest.mark.anyio
COUNT, C1 = "count_open_issues-2bd806", "c1-2bd806"
"""As alice's own."""
ALICE, BOB = (Session(key=name, principal=name) for name in ("alice", "bob"))


async def kept(store, **more):
    made = capability(**more)
    await store.documents.put(COLLECTION, made.id, to_value(made), marks={"name": made.name, "state": "active"})
    return made


async def test_it_is_shown_when_it_has_proven_itself_and_not_before(store):
    gateway = Gateway(store, proven_after=3)
    for n in range(3):
        assert gateway.tools == {}
        await gateway.ran(code("return n", inputs={"n": n}), run_of(), calls=["files:read"])
        await gateway.publisher.look()
    (tool,) = gateway.tools.values()
    known = await gateway.learned()
    assert tool.definition == {
        "name": COUNT,
        "description": "Count open issues. Learned from code that worked. Uses files:read.",
        "inputSchema": {
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
            "additionalProperties": False,
        },
        "annotations": {
            "readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False,
        },
        "_meta": {META: {"id": known.id, "learned_from": 1}},
    }  # fmt: skip
    assert tool.task({"n": 5}) == CapabilityRun(id=COUNT, capability_id=known.id, inputs={"n": 5})
    await gateway.services.stop()


async def test_a_call_with_other_inputs_says_what_it_takes(store):
    gateway = Gateway(store, proven_after=1)
    await gateway.ran(code(inputs={"a": 1, "b": 2}), run_of())
    await gateway.publisher.look()
    with pytest.raises(InvalidArguments, match=rf"{COUNT}: 'b' is missing; there is no 'c'\. It takes: a, b\."):
        gateway.tools[COUNT].task({"a": 1, "c": 3})
    await gateway.services.stop()


async def test_runs_that_end_badly_take_it_away_again(store):
    gateway = Gateway(store, proven_after=2, least_success=0.6)
    made = await kept(store, successes=2, failures=1)
    await gateway.publisher.look()
    assert list(gateway.tools) == [C1]
    await gateway.library.change(made.id, lambda known: replace(known, failures=2))
    gateway.publisher.changed()
    await gateway.publisher.look()
    assert gateway.tools == {}


async def test_one_failure_does_not_take_it_away_and_several_do(store):
    gateway = Gateway(store, proven_after=3)
    made = await kept(store, successes=3, failures=1)
    await gateway.publisher.look()
    assert list(gateway.tools) == [C1]
    await gateway.library.change(made.id, lambda known: replace(known, failures=2))
    gateway.publisher.changed()
    await gateway.publisher.look()
    assert gateway.tools == {}


async def test_a_call_with_a_value_of_another_kind_is_refused(store):
    gateway = Gateway(store, proven_after=1)
    await gateway.ran(code(inputs={"a": 1, "b": {"c": ["x"]}}), run_of())
    await gateway.publisher.look()
    with pytest.raises(InvalidArguments) as refused:
        gateway.tools[COUNT].task({"a": "hunter2", "b": {"c": ["x", 1]}})
    assert str(refused.value) == (
        f"{COUNT}: 'a' must be an integer, not a string; 'b.c[1]' must be a string, not an integer. It takes: a, b."
    )
    await gateway.services.stop()


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ([entry("files:read", "reads otherwise"), entry("files:write")], "the definition of files:read has changed"),
        ([entry("files:write")], "the tool files:read is gone"),
    ],
    ids=["changed", "gone"],
)
async def test_it_retires_when_a_tool_changes_and_begins_again_when_learned_anew(store, changed, why):
    catalog = some_catalog()
    gateway = Gateway(store, catalog, proven_after=2)
    for _ in range(2):
        await gateway.ran(code(), run_of(), calls=["files:read"])
    await gateway.publisher.look()
    assert list(gateway.tools) == [COUNT]
    gateway.services.catalog = catalog_of(*changed, files="up")
    await gateway.publisher.look()
    assert gateway.tools == {}
    assert why in (await gateway.learned()).retired
    await gateway.ran(code(), run_of(), calls=["files:write"])
    found = await gateway.learned()
    assert (found.retired, found.successes, list(found.tools)) == ("", 1, ["files:write"])
    await gateway.publisher.look()
    assert gateway.tools == {}
    await gateway.ran(code(), run_of(), calls=["files:write"])
    await gateway.publisher.look()
    assert list(gateway.tools) == [COUNT]
    await gateway.services.stop()


async def test_a_server_that_is_down_hides_it_and_retires_nothing(store):
    made = await kept(store, successes=9, tools={"files:read": some_catalog().get("files:read").digest})
    gateway = Gateway(store)
    await gateway.publisher.look()
    assert list(gateway.tools) == [C1]
    gateway.services.catalog = catalog_of(files="down")
    await gateway.publisher.look()
    assert gateway.tools == {}
    gateway.services.catalog = some_catalog()
    await gateway.publisher.look()
    assert list(gateway.tools) == [C1]
    assert (await gateway.library.get(made.id)).retired == ""


async def test_only_those_whose_code_taught_it_are_shown_it(store):
    await kept(store, successes=9)
    for shared, seen in ((False, [True, False]), (True, [True, True])):
        gateway = Gateway(store, shared=shared)
        await gateway.publisher.look()
        shown = entry("capability:c1" if shared else f"capability:{C1}")
        assert [gateway.publisher.keeps(shown, who) for who in (ALICE, BOB)] == seen
        assert gateway.publisher.keeps(entry("files:read"), BOB)
        assert gateway.publisher.keeps(entry("capability:unknown"), ALICE) == shared


@pytest.mark.attack(
    "A key sees its scope", "ask for what others asked for, and read from one's own name whether it is taken"
)
async def test_what_others_learned_changes_nothing_of_ones_own(store):
    seen = []
    for others in ((), (("bob", 1), ("carol", 2))):
        gateway = Gateway(store, proven_after=1, keep=2)
        for principal, n in (("alice", 0), *others, ("alice", 9), *others):
            await gateway.ran(code(f"return a{n}"), run_of(principal=principal))
            await gateway.ran(code(f"return a{n} + 1", intent="sum up"), run_of(principal=principal))
        await gateway.publisher.look()
        theirs = [t for t in gateway.services.published["capability"] if gateway.publisher.keeps(of(t), ALICE)]
        seen.append([tool.definition for tool in theirs])
        for known in await gateway.library.all():
            await gateway.library.forget(known.id)
        await gateway.services.stop()
    assert seen[0] == seen[1]
    assert seen[0]


def of(tool):
    return entry(f"capability:{tool.definition['name']}")


async def test_what_was_learned_in_common_is_nobodys_once_it_is_not_shared(store):
    await kept(store, successes=9, principals=frozenset({"alice", "bob"}))
    gateway = Gateway(store)
    await gateway.publisher.look()
    assert gateway.tools == {}


async def test_nothing_is_looked_up_when_nothing_has_changed(store, monkeypatch):
    gateway = Gateway(store)
    await gateway.publisher.look()

    async def fail(*args, **named):
        raise AssertionError("looked up")

    monkeypatch.setattr(store.documents, "find", fail)
    await gateway.publisher.look()
    gateway.publisher.changed()
    with pytest.raises(AssertionError, match="looked up"):
        await gateway.publisher.look()


async def test_it_keeps_in_step_by_itself_also_after_a_fault(store, monkeypatch):
    gateway = Gateway(store, proven_after=1)
    published, find = asyncio.Event(), store.documents.find
    faults = iter([OSError("locked")])

    async def at_first_faulty(*args, **named):
        for fault in faults:
            raise fault
        return await find(*args, **named)

    monkeypatch.setattr(store.documents, "find", at_first_faulty)
    monkeypatch.setattr(gateway.services, "publish", lambda server, tools: published.set())
    stepping = asyncio.ensure_future(gateway.publisher.keep_in_step())
    await asyncio.sleep(0)
    await gateway.ran(code(), run_of())
    async with asyncio.timeout(60):
        await published.wait()
    stepping.cancel()
    await asyncio.wait([stepping])
    assert [event for level, event, _ in gateway.services.log.lines if level == "exception"] == [
        "capabilities could not be looked through"
    ]
    await gateway.services.stop()


async def test_a_name_that_a_server_has_is_said_once(store, monkeypatch):
    gateway = Gateway(store)
    await kept(store, successes=9)

    def taken(server, tools):
        raise ValueError(f"{server!r} is the name of a configured server")

    monkeypatch.setattr(gateway.services, "publish", taken)
    for _ in range(2):
        gateway.publisher.changed()
        await gateway.publisher.look()
    assert [fields for level, _, fields in gateway.services.log.lines if level == "warning"] == [
        {"problem": "'capability' is the name of a configured server", "remedy": "set [plugins.capabilities] server"}
    ]


def test_of_those_that_do_the_same_the_best_is_shown():
    slow = capability("slow", successes=5, total_ms=500)
    fast = capability("fast", successes=5, total_ms=50, intents=("open issues count",))
    faulty = capability("faulty", successes=9, failures=2)
    other_tools = capability("tools", tools={"files:read": "d"})
    other_inputs = capability("inputs", inputs={"properties": {"a": {}}})
    other_intent = capability("intent", intents=("delete the repository",))
    bobs = capability("bobs", principals=frozenset({"bob"}))
    everything = [slow, fast, faulty, other_tools, other_inputs, other_intent, bobs]
    kept_ids = {c.id for c in best_of_alike(everything, Settings())}
    assert kept_ids == {"fast", "tools", "inputs", "intent", "bobs"}
    assert {c.id for c in best_of_alike(everything, Settings(shared=True))} == kept_ids - {"bobs"}


def hinted(name, **hints):
    return entry(f"s:{name}", annotations={f"{k}Hint": v for k, v in hints.items()}) if hints else entry(f"s:{name}")


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], (True, False, True, False)),
        ([entry("s:a", annotations=READ)], (True, False, True, False)),
        ([entry("s:a", annotations=READ), hinted("b")], (False, True, False, True)),
        ([entry("s:a", annotations=READ), None], (False, True, False, True)),
        ([hinted("a", readOnly=True)], (True, False, True, True)),
        ([hinted("a", readOnly=True, destructive=True)], (False, True, True, True)),
        ([hinted("a", destructive=False)], (False, False, False, True)),
        ([hinted("a", destructive=False, idempotent=True, openWorld=False)], (False, False, True, False)),
        (
            [hinted("a", destructive=False, idempotent=True), hinted("b", destructive=False)],
            (False, False, False, True),
        ),
        ([hinted("a", readOnly="yes")], (False, True, False, True)),
        ([entry("s:a", annotations=None)], (False, True, False, True)),
    ],
)
def test_hints_are_no_better_than_those_of_any_tool(entries, expected):
    names = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
    assert floor(entries) == dict(zip(names, expected, strict=True))


def test_more_knowledge_of_other_definitions_begins_again():
    before = capability(successes=9, failures=3, tools={"files:read": "old"})
    lesson = _lesson(before, tools={"files:read": "new"})
    after = learned(before, lesson, "ignored")
    assert (after.successes, after.failures, after.tools, after.name) == (1, 0, {"files:read": "new"}, "c1")
    assert learned(before, _lesson(before, tools={"web:get": "d"}), "").successes == 10


def _lesson(before: Capability, **more):
    given = {
        "id": before.id, "code": before.code, "language": before.language, "program": False, "intent": before.intent,
        "principal": "alice", "duration_ms": 5, "tools": {}, "inputs": before.inputs,
    }  # fmt: skip
    return SuccessfulRun(**{**given, **more})


def test_what_is_for_an_intent_comes_first():
    issues = capability("issues", intents=("Count open issues in a repository", "how many tickets are open"))
    pages = capability("pages", intents=("Summarise a web page",))
    assert [c.id for c, _ in by_intent([pages, issues], "count the open issues of my repositories")] == ["issues"]
    assert by_intent([pages, issues], "open tickets")[0][0] is issues
    assert by_intent([pages, issues], "bake bread") == []
