from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lessons import Gateway, capability, code, recorded, run_of, some_catalog

from pml_capabilities.capability import from_value, to_value
from pml_capabilities.learning import LEFT_BEHIND
from pml_capabilities.library import COLLECTION
from pml_capabilities.normalization import whole_ms
from pml_capabilities.settings import Settings
from pml_hookspecs import CapabilityRun, ExecutionRecord, Failure, Phase, Status, ToolCall, Workflow, replace
from pml_testing.fakes import EPOCH, outcome
from pml_testing.wrapper import WrapperContract

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("success", "store_present", "intent_present"), list(itertools.product([True, False], repeat=3))
)
async def test_it_learns_only_from_success_with_a_store_and_an_intent(store, success, store_present, intent_present):
    gateway = Gateway(store if store_present else None)
    task = code(intent="count open issues" if intent_present else "")
    status = Status.OK if success else Status.ERROR
    failure = None if success else Failure("code.failed", "It raised.")
    ended = await gateway.ran(task, run_of(), status=status, failure=failure)
    assert (ended.status, ended.failure) == (status, failure)
    assert (await store.documents.find(COLLECTION)).total == (success and store_present and intent_present)


async def test_the_intent_of_the_run_counts_where_the_code_has_none(gateway):
    await gateway.ran(code(intent=""), run_of(intent="count open issues"))
    assert (await gateway.learned()).intents == ("count open issues",)


async def test_what_is_kept_has_code_intent_duration_success_and_tools(gateway, store):
    calls = ["web:get", "files:read", "files:read"]
    await gateway.ran(code("return x", inputs={"x": 1}), run_of(), calls=calls, duration_ms=43.67673300000024)
    (document,) = (await store.documents.find(COLLECTION)).items
    kept = dict(document.value)
    assert {name: kept[name] for name in ("code", "language", "intent", "duration_ms", "success", "tools_used")} == {
        "code": "return x",
        "language": "javascript",
        "intent": "count open issues",
        "duration_ms": 44,
        "success": True,
        "tools_used": ["files:read", "web:get"],
    }
    assert type(kept["duration_ms"]) is int
    assert kept["definitions"] == {e.id: e.digest for e in some_catalog() if e.id in kept["tools_used"]}


@given(st.lists(st.floats(min_value=0, max_value=1e9, allow_nan=False), min_size=1, max_size=20))
def test_any_duration_becomes_whole_milliseconds(durations):
    for duration in (*durations, 43.67673300000024):
        assert type(whole_ms(duration)) is int
        assert abs(whole_ms(duration) - duration) <= 0.5
    known = from_value("c", {**to_value(capability()), "successes": len(durations)})
    known = replace(known, total_ms=sum(map(whole_ms, durations)))
    assert type(to_value(known)["duration_ms"]) is int


@pytest.mark.parametrize("place", ["on its own", "in a workflow", "as a capability's own code", "in other code"])
async def test_code_teaches_alike_wherever_it_runs(gateway, place):
    above = {
        "on its own": None,
        "in a workflow": Workflow(id="w", tasks=()),
        "as a capability's own code": CapabilityRun(id="k", capability_id="x", source="return 1"),
        "in other code": code("return outer", intent=""),
    }[place]
    if above is None:
        await gateway.ran(code(), run_of(), calls=["files:read"])
    else:
        outer = run_of()

        async def inside(task, run):
            await gateway.ran(code(), run_of(parent=run.id), calls=["files:read"])
            return outcome(task.id)

        await recorded(gateway.services.store, above, outer)
        await gateway.learning(above, outer, inside)
        await gateway.learning.settled()
    found = await gateway.learned()
    assert (found.code, list(found.tools), found.successes, found.failures) == ("return 1", ["files:read"], 1, 0)


async def test_tools_called_by_workflows_inside_the_code_are_the_codes_too(gateway):
    async def inside(task, run):
        async def plan(task, run):
            await gateway.learning(ToolCall(id="t", tool="web:get"), run_of(parent=run.id), ended)
            return outcome(task.id)

        async def ended(task, run):
            return outcome(task.id)

        await gateway.learning(Workflow(id="w", tasks=()), run_of(parent=run.id), plan)
        return outcome(task.id)

    task, run = code(), run_of()
    await recorded(gateway.services.store, task, run)
    await gateway.learning(task, run, inside)
    await gateway.learning.settled()
    assert list((await gateway.learned()).tools) == ["web:get"]


async def test_codes_that_run_side_by_side_do_not_share_their_tools(gateway):
    both = asyncio.Barrier(2)

    async def inside(task, run):
        await both.wait()
        tool = "files:read" if task.source == "return a" else "web:get"

        async def ended(task, run):
            return outcome(task.id)

        await gateway.learning(ToolCall(id="t", tool=tool), run_of(parent=run.id), ended)
        await both.wait()
        return outcome(task.id)

    runs = [(task, run_of()) for task in (code("return a"), code("return b"))]
    for task, run in runs:
        await recorded(gateway.services.store, task, run)
    await asyncio.gather(*(gateway.learning(task, run, inside) for task, run in runs))
    await gateway.learning.settled()
    assert {c.code: list(c.tools) for c in await gateway.library.all()} == {
        "return a": ["files:read"],
        "return b": ["web:get"],
    }


class WholeHistory:
    """Executions of which all are there, and whole."""

    async def get(self, id, scope):
        return ExecutionRecord(
            id=id, kind="code", target="javascript", principal="alice", status="running", started_at=EPOCH,
            intent="count open issues",
        )  # fmt: skip


class Breaks:
    """A store in which nothing works."""

    def __init__(self, at):
        self.documents, self.executions = self, WholeHistory() if at in ("put", "identity") else self
        self.at = at

    async def get(self, *args):
        if self.at == "get":
            raise OSError("disk full")

    async def find(self, *args, **named):
        raise OSError("disk full")

    put = find


class TestLearning(WrapperContract):
    @pytest.fixture
    def wrapper(self):
        return Gateway(Breaks("get")).learning

    @pytest.fixture
    def tasks(self):
        return [code(), CapabilityRun(id="k", capability_id="x"), Workflow(id="w", tasks=())]


@pytest.mark.parametrize("at", ["get", "put", "spawn", "identity"])
async def test_a_failure_to_learn_is_no_failure_of_the_task(at, monkeypatch):
    gateway = Gateway(Breaks(at))
    if at == "spawn":
        monkeypatch.setattr(gateway.services, "spawn", None)
    task = code() if at != "identity" else code("\ud800" * 3, inputs={1: {"a": object()}})
    ended = await gateway.ran(task, run_of(), calls=["files:read"])
    assert ended.status is Status.OK
    assert [event for level, event, _ in gateway.services.log.lines if level == "exception"] == ["nothing was learned"]


async def test_a_store_that_never_answers_delays_nothing():
    class Hangs(Breaks):
        async def get(self, *args):
            await asyncio.Event().wait()

    gateway = Gateway(Hangs(""))
    async with asyncio.timeout(30):
        for n in range(LEFT_BEHIND + 3):
            done = await gateway.learning(code(f"return {n}"), run_of(), lambda task, run: _ok(task))
            assert done.status is Status.OK
    assert len(gateway.services.tasks) == LEFT_BEHIND
    assert [event for level, event, _ in gateway.services.log.lines if level == "warning"] == [
        "too much to learn at once, a lesson is let go"
    ] * 3
    await gateway.services.stop()


async def _ok(task):
    return outcome(task.id)


@pytest.mark.parametrize(
    ("task", "run", "settings"),
    [
        (code(), {"dry_run": True}, {}),
        (code(folder="/home/alice"), {}, {}),
        (code("  \n"), {}, {}),
        (code("return 1234"), {}, {"longest_code": 10}),
        (code(), {}, {"learn": False}),
        (code(intent="  "), {}, {}),
    ],
    ids=["rehearsal", "folder", "no code", "too long", "switched off", "blank intent"],
)
async def test_some_code_is_not_learned_from(store, task, run, settings):
    gateway = Gateway(store, **settings)
    await gateway.ran(task, run_of(**run))
    assert not await gateway.library.all()
    await gateway.services.stop()


@pytest.mark.parametrize(
    ("request_", "intent", "expected"),
    [
        ({"source": "return 1"}, "count open issues", 1),
        ({"source": "return [redacted]"}, "count open issues", 0),
        ({"truncated": True, "size_bytes": 9, "head": "ret"}, "count open issues", 0),
        ({"source": "return 1"}, "count [redacted]", 0),
    ],
    ids=["whole", "secret in the code", "cut", "secret in the intent"],
)
async def test_code_whose_record_lacks_something_is_not_kept(gateway, store, request_, intent, expected):
    run = run_of()
    record = ExecutionRecord(
        id=run.id, kind="code", target="javascript", principal="alice", status="running", started_at=EPOCH,
        request=request_, intent=intent,
    )  # fmt: skip
    await store.executions.put(record)
    await gateway.ran(code(), run)
    assert len(await gateway.library.all()) == expected


async def test_code_of_which_there_is_no_record_is_not_kept(gateway):
    """As when the store had no room for it: nobody can tell whether it has secrets."""
    gateway.recorded = False
    await gateway.ran(code("return 'hunter2'"), run_of())
    assert await gateway.library.all() == []


async def test_the_same_code_in_another_layout_is_learned_once(gateway):
    for source in ("const a = 1;\nreturn a", "  const a = 1;  \n\n  // why\n  return a\n", "const a = 1;\r\nreturn a"):
        await gateway.ran(code(source), run_of(), duration_ms=10)
    found = await gateway.learned()
    assert (found.successes, found.duration_ms, found.code) == (3, 10, "const a = 1;\nreturn a")


async def test_more_runs_tell_more_of_inputs_tools_intents_and_people(store):
    gateway = Gateway(store, shared=True)
    await gateway.ran(code(inputs={"a": 1, "b": "x"}), run_of(), calls=["files:read"], duration_ms=10)
    again = code(inputs={"a": 1.5, "c": [1]}, intent="how many issues are open")
    await gateway.ran(again, run_of(principal="bob"), calls=["web:get"], duration_ms=21)
    found = await gateway.learned()
    assert found.inputs == {
        "type": "object",
        "properties": {
            "a": {"type": "number"},
            "b": {"type": "string"},
            "c": {"type": "array", "items": {"type": "integer"}},
        },
        "required": ["a"],
        "additionalProperties": False,
    }
    assert (sorted(found.tools), found.duration_ms) == (["files:read", "web:get"], 16)
    assert found.intents == ("count open issues", "how many issues are open")
    assert found.principals == {"alice", "bob"}


async def test_names_come_from_intents_and_differ(gateway):
    for source, intent in (
        ("return a", "Count the open issues!"),
        ("return b", "count open issues"),
        ("return c", "数える"),
    ):
        await gateway.ran(code(source, intent=intent), run_of())
    one, two, three = sorted(await gateway.library.all(), key=lambda c: c.code)
    assert (one.name, two.name) == ("count_open_issues", f"count_open_issues_{two.id[:6]}")
    assert three.name == f"capability_{three.id[:6]}"


async def test_what_changed_longest_ago_goes_when_there_is_too_much(store):
    gateway = Gateway(store, keep=2)
    for n in range(4):
        await gateway.ran(code(f"return a{n}"), run_of())
    assert sorted(c.code for c in await gateway.library.all()) == ["return a2", "return a3"]
    await gateway.services.stop()


@pytest.mark.parametrize(
    ("status", "failure", "counts"),
    [
        (Status.OK, None, (2, 0)),
        (Status.ERROR, Failure("code.failed", "It raised."), (1, 1)),
        (Status.TIMED_OUT, Failure("code.timed_out", "Too slow."), (1, 1)),
        (Status.CANCELLED, Failure("task.cancelled", "Cancelled."), (1, 0)),
        (Status.DENIED, Failure("policy.denied", "No."), (1, 0)),
        (Status.DENIED, Failure("code.tool_not_allowed", "It may not call that."), (1, 1)),
        (Status.ERROR, Failure("executor.missing", "No sandbox."), (1, 0)),
        (Status.ERROR, Failure("capability.retired", "Changed."), (1, 0)),
    ],
)
async def test_runs_of_what_was_learned_are_counted(gateway, status, failure, counts):
    await gateway.ran(code(), run_of())
    known = await gateway.learned()
    await gateway.ran(CapabilityRun(id="k", capability_id=known.id), run_of(), status=status, failure=failure)
    found = await gateway.learned()
    assert (found.successes, found.failures) == counts


async def test_what_fails_again_with_the_same_inputs_has_failed_once(gateway):
    await gateway.ran(code(inputs={"a": 1}), run_of())
    known = await gateway.learned()
    for a in (1, 1, 2, 1):
        task = CapabilityRun(id="k", capability_id=known.id, inputs={"a": a})
        failure = Failure("code.failed", "It raised.")
        await gateway.ran(task, run_of(), status=Status.ERROR, failure=failure)
    assert (await gateway.learned()).failures == 2


async def test_inputs_that_it_does_not_take_are_no_failure_of_it(gateway):
    await gateway.ran(code(), run_of())
    known = await gateway.learned()
    for failure in (Failure("capability.invalid_inputs", "No."), Failure("capability.disabled", "Off.")):
        task = CapabilityRun(id="k", capability_id=known.id)
        await gateway.ran(task, run_of(), status=Status.ERROR, failure=failure)
    assert (await gateway.learned()).failures == 0


async def test_code_that_a_capability_runs_is_counted_once(gateway):
    await gateway.ran(code(), run_of(), calls=["files:read"])
    known = await gateway.learned()

    async def inside(task, run):
        await gateway.ran(code(), run_of(parent=run.id), calls=["web:get"])
        return outcome(task.id)

    await gateway.learning(CapabilityRun(id="k", capability_id=known.id), run_of(), inside)
    await gateway.learning.settled()
    found = await gateway.learned()
    assert (found.successes, list(found.tools)) == (2, ["files:read"])


async def test_gateways_that_share_a_store_lose_no_count(store):
    gateways = [Gateway(store) for _ in range(4)]
    await asyncio.gather(*(g.ran(code(), run_of()) for g in gateways for _ in range(5)))
    found = await gateways[0].learned()
    assert found.successes == 20
    for gateway in gateways:
        await gateway.services.stop()


async def test_nothing_is_watched_after_it_ended_however_it_ended(gateway):
    async def fails(task, run):
        raise OSError("broken")

    for task in (code(), CapabilityRun(id="k", capability_id="x")):
        with pytest.raises(OSError, match="broken"):
            await gateway.learning(task, run_of(), fails)
    assert not gateway.learning._watched


async def test_it_sits_where_it_sees_what_the_caller_sees():
    assert Gateway().learning.phase is Phase.OBSERVE


@pytest.mark.attack("A key sees its scope", "run the code that somebody else ran, and read what it was for in the list")
async def test_what_one_says_of_code_is_not_told_to_another_who_runs_the_same(store):
    gateway = Gateway(store)
    secret = "lay off Carol Jones in March"
    await gateway.ran(code(intent=secret), run_of(principal="alice"))
    await gateway.ran(code(intent="count things"), run_of(principal="bob"))
    everything = await gateway.library.all()
    (found,) = [one for one in everything if one.visible("bob", Settings())]
    assert (found.intents, found.name, found.successes) == (("count things",), "count_things", 1)
