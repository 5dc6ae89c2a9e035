from __future__ import annotations

import asyncio

import pytest
from agents_kit import chat, client_of, gateway, happens, lives, pids, worker

from pml_agents import chat_tool as chat_module
from pml_agents.agents import Agents
from pml_agents.settings import Settings
from pml_core.plugins.nulls import MemoryStore
from pml_hookspecs import (
    Failure,
    Identity,
    Offer,
    Phase,
    Scope,
    Session,
    Status,
    ToolCall,
    UnauthenticatedError,
    hookimpl,
    replace,
)
from pml_kit.offers import IDENTITIES
from pml_testing.dispatching import InOrder, hooks
from pml_testing.downstream import records
from pml_testing.fakes import outcome
from pml_testing.wrapper import WrapperContract

pytestmark = pytest.mark.anyio
EVERYONE = Scope(principals=None)


def gated(folder, **options):
    return worker("gate", folder, "{message}", **options)


def begun(folder):
    return {path.stem for path in folder.glob("*.begun")}


async def status_of(made, id):
    record = await made.store.executions.get(id, EVERYONE)
    return None if record is None else str(record.status)


async def reaches(made, id, status):
    async with asyncio.timeout(60):
        while await status_of(made, id) != status:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.005)


async def test_in_the_background_the_id_comes_at_once_and_the_answer_later(tmp_path):
    async with gateway({"w": gated(tmp_path)}) as (made, client):
        told, failed = await chat(client, "w", "one", **{"async": True})
        assert not failed
        assert (told["agent_name"], told["status"]) == ("w", "pending")
        await reaches(made, told["execution_id"], "running")
        (tmp_path / "all.go").touch()
        await reaches(made, told["execution_id"], "ok")
        row = await made.store.executions.get(told["execution_id"], EVERYONE)
    assert row.response["structuredContent"]["response"] == "one is done"
    assert (row.agent, row.as_agent, row.intent) == ("w", True, "one")


async def test_while_it_is_waited_for_it_is_running_and_can_be_found(tmp_path):
    async with gateway({"w": gated(tmp_path)}) as (made, client):
        asked = asyncio.create_task(chat(client, "w", "one"))
        await happens(lambda: begun(tmp_path))
        rows = [r for r in await records(made) if r.target == "agents:w"]
        assert [(r.status, r.agent, r.as_agent) for r in rows] == [("running", "w", True)]
        (tmp_path / "all.go").touch()
        told, _ = await asked
    assert told["execution_id"] == rows[0].id


async def test_a_chat_is_recorded_once_as_the_agents_run_and_as_itself_where_none_began():
    async with gateway({"w": worker("json", parser="json")}) as (made, client):
        await chat(client, "w")
        told, _ = await chat(client, "w", **{"async": True})
        await reaches(made, told["execution_id"], "ok")
        await chat(client, "nobody")
        rows = [(r.target, str(r.status), r.cost_usd) for r in await records(made)]
    run = ("agents:w", "ok", 0.0125)
    assert sorted(rows, key=str) == [run, run, ("pml:chat_with_agent", "error", None)]


async def test_cancel_stops_what_runs_and_says_so(tmp_path):
    place = tmp_path / "pids"
    async with gateway({"w": worker("stubborn", place)}) as (_, client):
        told, _ = await chat(client, "w", **{"async": True})
        found = await happens(lambda: pids(place))
        id = told["execution_id"]
        done = (await client.call("cancel_execution", {"execution_id": id}))["structuredContent"]
        assert done == {"execution_id": id, "cancelled": True, "status": "cancelled"}
        assert not [name for name, pid in found.items() if lives(pid)]
        again = (await client.call("cancel_execution", {"execution_id": id}))["structuredContent"]
    assert again == {"execution_id": id, "cancelled": False, "status": "cancelled"}


async def test_cancel_stops_what_somebody_else_waits_for(tmp_path):
    async with gateway({"w": gated(tmp_path)}) as (made, client):
        asked = asyncio.create_task(chat(client, "w", "one"))
        await happens(lambda: begun(tmp_path))
        row = next(r for r in await records(made) if r.target == "agents:w")
        other = await client_of(made)
        done = await other.call("cancel_execution", {"execution_id": row.id})
        told, failed = await asked
    assert done["structuredContent"]["cancelled"] is True
    assert failed
    assert told["error"] == "Agent 'w' was cancelled."


async def test_nobody_cancels_what_is_not_theirs_and_learns_nothing(tmp_path):
    async with gateway({"w": gated(tmp_path)}) as (made, client):
        told, _ = await chat(client, "w", "one", **{"async": True})
        id = told["execution_id"]
        stranger = await client_of(made, principal="bob")
        theirs = await stranger.call("cancel_execution", {"execution_id": id})
        nobodys = await stranger.call("cancel_execution", {"execution_id": id[:-1] + "0"})
        assert await status_of(made, id) in ("pending", "running")
        (tmp_path / "all.go").touch()
        await reaches(made, id, "ok")
    assert theirs["isError"]
    assert theirs["content"][0]["text"].replace(id, "X") == nobodys["content"][0]["text"].replace(id[:-1] + "0", "X")


class SeesAll:
    """Shows everybody everything, but nobody with a key that was revoked."""

    async def identify(self, token):
        return None

    async def scope(self, session, *, results):
        if session.access_key == "revoked":
            raise UnauthenticatedError("The key has been revoked.")
        return EVERYONE


SEEING = hooks()
SEEING.pml_offers = hookimpl(lambda services: [Offer(IDENTITIES, SeesAll())])
SEES_ALL = {("guards", "sees"): SEEING}


@pytest.mark.parametrize(
    ("identity", "may"),
    [
        (Identity(principal="local"), True),
        (Identity(principal="agent:w", agent="w"), True),
        (Identity(principal="ops", scopes=frozenset({"system"})), True),
        (Identity(principal="bob"), False),
        (Identity(principal="bob", scopes=frozenset({"other"})), False),
        (Identity(principal="agent:v", agent="v"), False),
    ],
)
async def test_to_see_is_not_to_cancel(tmp_path, identity, may):
    async with gateway({"w": gated(tmp_path)}, plugins=SEES_ALL) as (made, client):
        told, _ = await chat(client, "w", "one", **{"async": True})
        id = told["execution_id"]
        await happens(lambda: begun(tmp_path))
        other = await client_of(made, identity=identity)
        done = await other.call("cancel_execution", {"execution_id": id})
        nobodys = await other.call("cancel_execution", {"execution_id": id[:-1] + "0"})
        status = await status_of(made, id)
        (tmp_path / "all.go").touch()
    assert done.get("isError", False) is not may
    assert status == ("cancelled" if may else "running")
    if not may:
        text, same = (one["content"][0]["text"] for one in (done, nobodys))
        assert text.replace(id, "X") == same.replace(id[:-1] + "0", "X")


async def test_what_only_acts_for_an_agent_is_not_the_agents_own(tmp_path):
    async with gateway({"w": gated(tmp_path)}, plugins=SEES_ALL) as (made, client):
        told, _ = await chat(client, "w", "one", **{"async": True})
        id = told["execution_id"]
        await happens(lambda: begun(tmp_path))
        row = made.store.executions.records[id]
        made.store.executions.records[id] = replace(row, as_agent=False)
        other = await client_of(made, identity=Identity(principal="agent:w", agent="w"))
        done = await other.call("cancel_execution", {"execution_id": id})
        (tmp_path / "all.go").touch()
    assert done["isError"]


async def test_who_is_not_let_in_is_told_why_and_cancels_nothing(tmp_path):
    async with gateway({"w": gated(tmp_path)}, plugins=SEES_ALL) as (made, client):
        told, _ = await chat(client, "w", "one", **{"async": True})
        revoked = await client_of(made, identity=Identity(principal="local", access_key="revoked"))
        done = await revoked.call("cancel_execution", {"execution_id": told["execution_id"]})
        status = await status_of(made, told["execution_id"])
        (tmp_path / "all.go").touch()
    assert done["isError"]
    assert done["content"][0]["text"] == "The key has been revoked."
    assert status in ("pending", "running")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"agent_name": "w"}, "message"),
        ({"agent_name": "w", "message": " "}, "message"),
        ({"agent_name": "w", "message": 3}, "message"),
        ({"message": "hello"}, "agent_name"),
        ({"agent_name": "nobody", "message": "hello"}, "no agent 'nobody'; there are w"),
        ({"agent_name": "w", "message": "hello", "context": {}}, "context"),
        ({"agent_name": "w", "message": "hello", "async": "yes"}, "async must be true or false"),
        ({"agent_name": "w", "message": "hello", "parallel": 1}, "parallel must be true or false"),
        ({"agent_name": "w", "message": "hello", "model": "x"}, "unknown argument 'model'"),
    ],
)
async def test_arguments_that_do_not_fit_are_explained(arguments, words):
    async with gateway({"w": worker("echo")}) as (made, client):
        result = await client.call("chat_with_agent", arguments)
        assert not [r for r in await records(made) if r.target == "agents:w"]
    assert result["isError"]
    assert words in result["content"][0]["text"]


async def test_without_agents_there_is_nothing_to_list_and_a_clear_answer():
    async with gateway({}) as (made, client):
        result = await client.call("chat_with_agent", {"agent_name": "w", "message": "hello"})
        assert not [e for e in made.catalog if e.server == "agents"]
        assert not next(e for e in made.catalog if e.name == "chat_with_agent").meta
    assert "there are none that you may ask" in result["content"][0]["text"]


async def test_agents_are_tools_with_honest_annotations():
    agents = {"w": worker("echo", description="Echoes."), "r": worker("echo", read_only=True)}
    async with gateway(agents) as (made, _):
        assert next(e for e in made.catalog if e.name == "chat_with_agent").meta
        tools = {e.name: e.definition for e in made.catalog if e.server == "agents"}
    assert set(tools) == {"r", "w"}
    assert tools["w"]["description"].startswith("Echoes.")
    assert "readOnlyHint" not in tools["w"]["annotations"]
    assert tools["r"]["annotations"]["readOnlyHint"] is True


async def test_an_agent_that_a_filter_hides_is_as_unknown_as_one_that_is_not_there():
    hidden = hooks(filters=[lambda entry, session: not (entry.id == "agents:w" and session.principal == "bob")])
    async with gateway({"w": worker("echo"), "v": worker("echo")}, plugins={("hooks", "hides"): hidden}) as (made, _):
        bob = await client_of(made, principal="bob")
        told, failed = await chat(bob, "w")
        other, _ = await chat(bob, "x")
    assert failed
    assert told["text"].replace("'w'", "?") == other["text"].replace("'x'", "?")
    assert "there are v" in told["text"]


async def test_a_request_taken_back_while_it_is_being_recorded_leaves_nothing_pending(tmp_path, monkeypatch):
    async with gateway({"w": gated(tmp_path)}) as (made, client):
        recording, go_on = asyncio.Event(), asyncio.Event()
        put = made.store.executions.put

        async def slow(record):
            recording.set()
            await go_on.wait()
            await put(record)

        monkeypatch.setattr(made.store.executions, "put", slow)
        asked = asyncio.create_task(chat(client, "w", "one", **{"async": True}))
        await recording.wait()
        asked.cancel()
        go_on.set()
        await asyncio.wait([asked])
        left = await made.store.documents.find("core.runs")
        row = next(r for r in await records(made) if r.target == "agents:w")
    assert asked.cancelled()
    assert list(left.items) == []
    assert row.status == "cancelled"


class Refuses:
    """Refuses agents, below everything else that looks at them."""

    phase = Phase.LIMIT

    async def __call__(self, task, run, call_next):
        if isinstance(task, ToolCall) and task.tool.startswith("agents:"):
            return outcome(task.id, status=Status.DENIED, failure=Failure("limit.rate", "Not today."))
        return await call_next(task, run)


async def test_what_a_policy_says_of_the_agents_tool_holds_for_chats():
    async with gateway({"w": worker("echo")}, plugins={("hooks", "refuses"): hooks(wrappers=[Refuses()])}) as (
        made,
        client,
    ):
        told, failed = await chat(client, "w")
        statuses = {r.target: str(r.status) for r in await records(made)}
    assert failed
    assert told["error"] == "Not today."
    assert statuses["agents:w"] == "denied"


async def test_a_wrapper_that_breaks_does_not_keep_the_caller_waiting():
    class Breaks:
        phase = Phase.VALIDATE

        async def __call__(self, task, run, call_next):
            if isinstance(task, ToolCall) and task.tool.startswith("agents:"):
                raise RuntimeError("broken")
            return await call_next(task, run)

    async with gateway({"w": worker("echo")}, plugins={("hooks", "breaks"): hooks(wrappers=[Breaks()])}) as (_, client):
        told, failed = await chat(client, "w")
    assert failed
    assert "plugin 'breaks' failed" in told["error"]


async def test_an_end_that_nobody_tells_of_is_found_in_the_store(monkeypatch):
    monkeypatch.setattr(chat_module, "LOOK_S", 0.02)
    monkeypatch.setattr(
        chat_module.CompletionNotifier, "__call__", lambda self, task, run, call_next: call_next(task, run)
    )
    async with gateway({"w": worker("echo")}) as (_, client):
        told, failed = await chat(client, "w")
    assert not failed
    assert told["response"] == "you said: hello"


async def test_signs_of_progress_reach_whoever_waits():
    async with gateway({"w": worker("stream", parser="stream-json")}) as (_, client):
        await client.call("chat_with_agent", {"agent_name": "w", "message": "go"}, _meta={"progressToken": "p"})
        notes = [params for method, params in client.link.notified if method == "notifications/progress"]
    messages = [note["message"] for note in notes]
    assert "w: works" in messages
    assert "w: uses Read" in messages
    assert [note["progress"] for note in notes] == sorted({note["progress"] for note in notes})


async def test_an_agent_may_not_wait_for_itself():
    async with gateway({"w": worker("echo")}) as (made, _):
        session = Session(key="agent", principal="alice", agent="w")
        call = ToolCall(id="c", tool="pml:chat_with_agent", arguments={"agent_name": "w", "message": "hello"})
        alone = await made.dispatcher.start(call, session)
        beside = ToolCall(id="c", tool=call.tool, arguments={**call.arguments, "parallel": True})
        fine = await made.dispatcher.start(beside, session)
        row = next(r for r in await records(made) if r.target == "agents:w")
    assert "would wait for itself" in alone.failure.message
    assert fine.status is Status.OK
    assert row.trigger == "agent"


async def test_in_a_plan_an_agent_is_a_tool_like_others():
    from pml_hookspecs import Workflow

    async with gateway({"w": worker("json", parser="json")}, plugins={("executor", "in_order"): InOrder}) as (made, _):
        plan = Workflow(id="p", tasks=(ToolCall(id="a", tool="agents:w", arguments={"message": "go"}),))
        ended = await made.dispatcher.start(plan, Session(key="k"))
        rows = {r.target: r for r in await records(made)}
    assert ended.status is Status.OK
    assert rows["agents:w"].cost_usd == 0.0125
    assert rows["agents:w"].parent == rows[""].id


class Sulking(MemoryStore):
    """A store that keeps nothing for as long as it sulks."""

    def __init__(self, settings=None, services=None):
        super().__init__()
        Sulking.last = self
        self.sulks = False
        put, documents_put = self.executions.put, self.documents.put

        async def maybe(record):
            if self.sulks:
                raise OSError("disk full")
            await put(record)

        async def maybe_too(*args, **options):
            if self.sulks:
                raise OSError("disk full")
            return await documents_put(*args, **options)

        self.executions.put, self.documents.put = maybe, maybe_too


async def test_while_the_store_is_out_of_order_agents_are_asked_all_the_same():
    store = {("store", "sulking"): Sulking}
    from pml_agents import plugin
    from pml_testing.gateway import running

    tables = {"agents": {"agents": {"w": worker("echo")}}}
    async with running({}, plugins={("hooks", "agents"): plugin, **store}, tables=tables, store="sulking") as made:
        client = await client_of(made)
        Sulking.last.sulks = True
        told, failed = await chat(client, "w")
        later, refused = await chat(client, "w", **{"async": True})
        Sulking.last.sulks = False
    assert not failed
    assert told["response"] == "you said: hello"
    assert refused, "what is answered with an id has to be recorded"
    assert "cannot be recorded" in str(later)


class TestWitness(WrapperContract):
    @pytest.fixture
    def wrapper(self, services):
        return chat_module.CompletionNotifier(Agents(services, Settings()))


async def test_the_server_agents_cannot_be_configured_besides():
    from pml_agents import plugin
    from pml_testing.gateway import ScriptedServer, running

    tables = {"agents": {"agents": {"w": worker("echo")}}}
    async with running({"agents": ScriptedServer()}, plugins={("hooks", "agents"): plugin}, tables=tables) as made:
        assert "quarantined" in made.supervisor.health["agents"]
        assert "name of a configured server" in made.supervisor.health["agents"]
