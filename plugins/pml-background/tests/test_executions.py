"""What is kept of work in the background, how its record reads meanwhile, and who finds what was left."""

from __future__ import annotations

import asyncio
import json
import types
from datetime import UTC, datetime, timedelta

import pytest

from pml_background.secret_references import SecretGoneError, SecretReferences
from pml_core.plugins.nulls import MemoryStore
from pml_hookspecs import (
    ExecutionQuery,
    ExecutionRecord,
    MetaTool,
    RawObject,
    RunOptions,
    Scope,
    Session,
    Status,
    ToolCall,
    Workflow,
    encode,
    hookimpl,
    replace,
)
from pml_kit.identifiers import execution_id
from pml_kit.plain import to_plain
from pml_kit.system.redaction import Redactor
from pml_testing.fakes import outcome
from pml_testing.gateway import ScriptedServer, running

pytestmark = pytest.mark.anyio
EVERYONE = Scope(principals=None)
SECRET = "sk-live-0123456789abcdef"
SOON_S = 60


class Held(ScriptedServer):
    """Answers when it may; keeps the arguments that it was called with."""

    def __init__(self):
        self.may, self.given = asyncio.Event(), []

        async def answer(name, arguments):
            self.given.append(arguments)
            await self.may.wait()
            return {"content": []}

        super().__init__(["a"], answer)


class Durable:
    """Runs durable workflows, and would run them again."""

    handles = frozenset({Workflow})
    durable = True

    def __init__(self, settings=None, services=None):
        pass

    async def execute(self, task, run):
        for each in task.tasks:
            await run.dispatch(each)
        return outcome(task.id)


class Large(MemoryStore):
    """Remembers more."""

    def __init__(self, settings=None, services=None):
        super().__init__(remembered=1000)


def plan(**arguments):
    return Workflow(id="plan", tasks=(ToolCall(id="only", tool="one:a", arguments=arguments),), durable=True)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("pml_background.gateway_process.BEAT_S", 0.02)


def gateway(server, **more):
    plugins = {("executor", "durable"): Durable, ("store", "large"): Large, **more.pop("plugins", {})}
    return running({"one": server}, plugins=plugins, store="large", **more)


async def until(condition):
    async with asyncio.timeout(SOON_S):
        while not (found := await condition()):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.005)
    return found


async def record_of(started, id, *statuses):
    """The record, once it has one of these statuses."""

    async def there():
        record = await started.store.executions.get(id, EVERYONE)
        return record if record is not None and record.status in statuses else None

    return await until(there)


async def left(started, task):
    """What a gateway leaves that has recorded an execution as pending and is gone; its id."""
    id, session = execution_id(), Session(key="test")
    value = {"task": to_plain(task), "session": to_plain(session), "asked": {}}
    kept = await started.background._references.instead(value)
    await started.store.executions.put(started.dispatcher.pending(task, session, RunOptions(id=id)))
    await started.store.documents.put("core.runs", id, kept, marks={"gateway": "gone"})
    return id


# Secrets


async def test_what_is_kept_to_go_on_with_has_references_in_the_place_of_secrets():
    server = Held()
    async with gateway(server, settings={"env": {"API_TOKEN": SECRET}}) as started:
        text = f"use {SECRET}, and {SECRET} again"
        id = await started.background.start(plan(text=text, n=1), Session(key="test"), RunOptions())
        kept = encode((await started.store.documents.get("core.runs", id)).value).decode()
        assert SECRET not in kept
        assert kept.count("{pml-secret:") == 2
        server.may.set()
        assert (await record_of(started, id, Status.OK, Status.ERROR)).status is Status.OK
        assert [given["text"] for given in server.given] == [text]


async def test_a_plan_that_is_gone_on_with_gets_its_secrets_back():
    server = Held()
    server.may.set()
    async with gateway(server, settings={"env": {"API_TOKEN": SECRET}}) as started:
        id = await left(started, plan(text=SECRET))
        assert (await record_of(started, id, Status.OK, Status.ERROR)).status is Status.OK
        assert [given["text"] for given in server.given] == [SECRET]


async def test_a_plan_whose_secret_is_gone_fails_and_says_so():
    server = Held()
    server.may.set()
    async with gateway(server, settings={"env": {"API_TOKEN": SECRET}}) as started:
        references, started.background._references = (
            started.background._references,
            SecretReferences(Redactor(), started.store),
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(started.background._references, "instead", references.instead)
            id = await left(started, plan(text=SECRET))
        record = await record_of(started, id, Status.OK, Status.ERROR)
        assert (record.failure.code, "secret" in record.failure.message) == ("execution.lost", True)
        assert server.given == []
        assert (await started.store.documents.find("core.runs")).total == 0


async def test_references_are_the_same_for_all_gateways_on_a_store_and_tell_nothing_without_its_key():
    store, redactor = MemoryStore(), Redactor()
    redactor.learn([SECRET, SECRET[:12]])
    value = {"a": RawObject(encode({SECRET: [SECRET[:12], 1, None]})), "b": f'"{SECRET}"'}
    kept = await SecretReferences(redactor, store).instead(value)
    assert SECRET[:12] not in json.dumps(kept)
    back = await SecretReferences(redactor, store).back(kept)
    assert back == {"a": {SECRET: [SECRET[:12], 1, None]}, "b": f'"{SECRET}"'}
    assert await SecretReferences(redactor, MemoryStore()).instead(value) != kept
    with pytest.raises(SecretGoneError):
        await SecretReferences(Redactor(), store).back(kept)


async def test_what_has_no_secret_is_kept_as_it_is():
    redactor, store = Redactor(), MemoryStore()
    redactor.learn([SECRET])
    value = {"text": "nothing \u00e4 \\ of it"}
    assert await SecretReferences(redactor, store).instead(value) is value
    assert await store.secrets.get("core", "key of references to secrets") is None


# Running


async def test_a_call_in_the_background_is_running_while_it_runs():
    server = Held()
    async with gateway(server) as started:
        id = await started.background.start(ToolCall(id="call", tool="one:a"), Session(key="test"), RunOptions())
        record = await record_of(started, id, "running")
        assert record.duration_ms is None
        query = ExecutionQuery(scope=EVERYONE, statuses=frozenset({"pending"}))
        assert (await started.store.executions.find(query)).total == 0
        server.may.set()
        assert (await record_of(started, id, Status.OK)).started_at == record.started_at


async def test_a_call_that_waits_for_its_turn_is_pending_until_whoever_gives_turns_says_so():
    made, may, begun = types.ModuleType("agents"), asyncio.Event(), asyncio.Event()

    async def work(arguments, run):
        begun.set()
        await may.wait()
        return {}

    definition = {"name": "w", "inputSchema": {"type": "object"}}

    def publish(services):
        services.publish("agents", [MetaTool(definition=definition, call=work)])
        return []

    made.pml_meta_tools = hookimpl(publish)
    async with gateway(Held(), plugins={("hooks", "agents"): made}) as started:
        id = await started.background.start(ToolCall(id="call", tool="agents:w"), Session(key="test"), RunOptions())
        await begun.wait()
        assert (await started.store.executions.get(id, EVERYONE)).status == "pending"
        may.set()
        await record_of(started, id, Status.OK)


async def test_of_two_gateways_that_would_begin_one_run_one_does(monkeypatch):
    """One that stood still begins nothing that another has taken over meanwhile."""
    asked, turn, cancelled = [], asyncio.Event(), asyncio.Event()
    made = types.ModuleType("agents")

    async def work(arguments, run):
        try:
            await turn.wait()
            await run.begin()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        asked.append(run.id)
        return {}

    definition = {"name": "w", "inputSchema": {"type": "object"}}

    def publish(services):
        services.publish("agents", [MetaTool(definition=definition, call=work)])
        return []

    made.pml_meta_tools = hookimpl(publish)
    async with gateway(Held(), plugins={("hooks", "agents"): made}) as started:
        monkeypatch.setattr(started.background, "_obey", lambda: asyncio.sleep(0))  # it has not looked yet
        ids = [
            await started.background.start(ToolCall(id="call", tool="agents:w"), Session(key="test"), RunOptions())
            for _ in range(2)
        ]
        documents = started.store.documents
        taken = await documents.get("core.runs", ids[0])
        monkeypatch.setattr(started.background, "_see_to_orphans", lambda: asyncio.sleep(0))
        await documents.put("core.runs", ids[0], taken.value, marks={"gateway": "other"})
        turn.set()
        await record_of(started, ids[1], Status.OK)
        await cancelled.wait()
        assert asked == ids[1:]
        assert (await documents.get("core.runs", ids[0])).marks == {"gateway": "other"}


# What was left


@pytest.mark.parametrize("marks", [{}, {"begun": "yes"}])
async def test_what_was_left_is_begun_where_it_had_not_begun_and_fails_where_it_had(marks):
    server = Held()
    server.may.set()
    async with gateway(server) as started:
        task, session, id = ToolCall(id="call", tool="one:a", arguments={"n": 1}), Session(key="test"), execution_id()
        kept = await started.background._references.instead(
            {"task": to_plain(task), "session": to_plain(session), "asked": {}}
        )
        await started.store.executions.put(started.dispatcher.pending(task, session, RunOptions(id=id)))
        await started.store.documents.put("core.runs", id, kept, marks={"gateway": "gone", **marks})
        record = await record_of(started, id, Status.OK, Status.ERROR)
    assert (str(record.status), server.given) == (("error", []) if marks else ("ok", [{"n": 1}]))


async def test_all_rows_are_looked_at_however_many_go_on(monkeypatch):
    long_ago = datetime.now(UTC) - timedelta(days=1)
    row = ExecutionRecord(
        id=execution_id(), kind="workflow", target="", principal="p", status="running", started_at=long_ago
    )
    async with gateway(Held()) as started:
        ids = []
        for n in range(300):
            at = long_ago + timedelta(seconds=n)
            one = replace(row, id=execution_id(), started_at=at, request={"durable": n >= 50})
            ids.append(one.id)
            await started.store.executions.put(one)
        for id in ids[:50]:
            assert (await record_of(started, id, Status.ERROR)).failure.code == "execution.lost"
        assert (await started.store.executions.get(ids[50], EVERYONE)).status == "running"
