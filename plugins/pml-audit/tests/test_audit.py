from __future__ import annotations

import asyncio
import json
import time
from datetime import timedelta

import pytest
from audit_kit import ALICE, BOSS, call, gateway, until_there

from pml_approvals.requests import Requests
from pml_approvals.settings import Settings as ApprovalSettings
from pml_audit import lifespan
from pml_audit.recorder import Recorder
from pml_audit.settings import Settings
from pml_audit.verify import verify
from pml_audit.watch import ChangeWatch
from pml_audit.wrapper import Audit
from pml_core.plugins.nulls import MemoryStore
from pml_hookspecs import RunOptions, Status, Workflow, replace
from pml_kit.offers import ACCESS, AccessEvent
from pml_testing.dispatching import hooks
from pml_testing.fakes import FakeRun, FakeServices
from pml_testing.gateway import Client
from pml_testing.wrapper import Next

pytestmark = pytest.mark.anyio


# Denials


async def test_a_denial_has_its_row_before_its_answer_goes_out(folder, rows):
    async with gateway() as made:
        mallory = replace(ALICE, principal="mallory")
        refused = await made.dispatcher.start(call("fs:drop", table="x"), mallory, RunOptions(intent="tidy up"))
        (row,) = rows("denied")
    assert refused.failure.code == "policy.denied"
    about = {name: row[name] for name in ("code", "target", "principal", "client", "endpoint", "status", "intent")}
    assert about == {
        "code": "policy.denied",
        "target": "fs:drop",
        "principal": "mallory",
        "client": "tester/1",
        "endpoint": "work",
        "status": "denied",
        "intent": "tidy up",
    }
    assert row["details"] == {"plugin": "others"}
    assert "arguments" not in row


async def test_a_limit_that_ends_a_task_is_a_denial_too(folder, rows):
    async with gateway() as made:
        await made.dispatcher.start(call("fs:slow"), ALICE)
        (row,) = rows("denied")
    assert (row["code"], row["status"], row["details"]["rule"]) == ("limit.time_out", "timed_out", "few")


async def test_a_denial_in_a_plan_names_the_execution_above_it(folder, rows):
    async with gateway() as made:
        mallory = replace(ALICE, principal="mallory")
        await made.dispatcher.start(Workflow(id="w", tasks=(call("fs:drop"),)), mallory)
        inner, outer = rows("denied")
    assert inner["parent"] == outer["execution"]
    assert (inner["target"], outer["task"]) == ("fs:drop", "workflow")


async def test_what_goes_well_or_fails_by_itself_has_no_row(folder, rows):
    async with gateway() as made:
        await made.dispatcher.start(call("fs:read"), ALICE)
        await made.dispatcher.start(call("fs:nothing"), ALICE)
    assert rows("denied") == rows("query") == []


async def test_every_one_of_many_denials_at_once_has_its_row(folder, rows):
    async with gateway() as made:
        mallory = replace(ALICE, principal="mallory")
        calls = [made.dispatcher.start(call("fs:drop"), mallory) for _ in range(300)]
        ids = {row["execution"] for row in (await asyncio.gather(*calls), rows("denied"))[1]}
        assert len(ids) == 300
    assert verify(folder).broken is None


# Queries


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("list_recent_executions", {"hours": 2}), ("get_execution_result", {"agent_name": "x", "execution_id": "y"})],
)
async def test_whoever_asks_for_history_is_recorded_with_what_was_asked(folder, rows, tool, arguments):
    async with gateway() as made:
        client = Client(made, principal="carol")
        await client.initialize()
        await client.call(tool, arguments)
        (row,) = rows("query")
    assert (row["target"], row["principal"], row["arguments"]) == (f"pml:{tool}", "carol", arguments)
    assert row["status"] in ("ok", "error")


async def test_a_query_that_is_cancelled_is_recorded(folder, rows):
    services = FakeServices("audit", store=MemoryStore())
    recording = Recorder(services, Settings())
    audit = Audit(recording, Settings())

    async def hangs(task, run):
        await asyncio.Event().wait()

    asked = asyncio.ensure_future(audit(call("pml:list_recent_executions"), FakeRun(), hangs))
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.wait([asked])
    await recording.close()
    assert asked.cancelled()
    assert rows("query")[0]["status"] == "cancelled"


async def test_which_tools_tell_of_history_can_be_configured(folder, rows):
    async with gateway({"queries": ["fs:re*"]}) as made:
        await made.dispatcher.start(call("fs:read"), ALICE)
        await made.dispatcher.start(call("pml:list_recent_executions"), ALICE)
        (row,) = rows("query")
    assert row["target"] == "fs:read"


# Keys


async def test_a_key_has_one_row_a_day_at_each_endpoint(folder, rows, monkeypatch):
    from pml_audit import wrapper

    now = time.time()
    async with gateway() as made:
        for session in (ALICE, ALICE, replace(ALICE, endpoint="home"), BOSS, ALICE):
            await made.dispatcher.start(call("fs:read"), session)
        monkeypatch.setattr(wrapper.time, "time", lambda: now + 86_400)
        await made.dispatcher.start(call("fs:read"), ALICE)
        monkeypatch.undo()
    used = [(row["principal"], row["endpoint"]) for row in rows("key.used")]
    assert used == [("alice", "work"), ("alice", "home"), ("boss", "default"), ("alice", "work")]
    assert rows("key.used")[2]["scopes"] == ["approve"]
    assert rows("key.used")[0]["day"] < rows("key.used")[-1]["day"]


async def test_a_new_start_does_not_repeat_it(folder, rows, monkeypatch):
    monkeypatch.setattr(lifespan, "HEAD_S", 0.01)
    for _ in range(2):
        async with gateway() as made:
            await made.dispatcher.start(call("fs:read"), ALICE)
    assert len(rows("key.used")) == 1


# The gateway, its configuration, approvals


async def test_start_and_stop_are_recorded_and_the_chain_goes_on(folder, rows):
    for _ in range(2):
        async with gateway():
            pass
    kinds = [row["kind"] for row in rows() if row["kind"].startswith("gateway.")]
    assert kinds == ["gateway.started", "gateway.stopped"] * 2
    assert rows("gateway.started")[0]["servers"] == ["fs"]
    assert verify(folder).broken is None


async def test_a_configuration_file_that_changes_makes_a_row(folder, rows, tmp_path):
    extra = tmp_path / "extra.toml"
    async with gateway({"config_files": [str(extra)]}) as made:
        (tmp_path / "home").mkdir(exist_ok=True)
        extra.write_text("a = 1")
        (seen,) = await until_there(rows, "config.seen")
        extra.write_text("a = 2")
        (changed,) = await until_there(rows, "config.changed")
        (tmp_path / "pml.toml").write_text("")
        await until_there(rows, "config.seen", 2)
        assert made.store is not None
    assert seen["file"] == changed["file"] == str(extra)
    assert seen["before"] == "none"
    assert changed["before"] == seen["after"] != changed["after"]


async def test_a_change_before_the_start_makes_a_row_and_two_gateways_make_one(folder, rows, tmp_path):
    from pml_audit.watch import ChangeWatch

    store = MemoryStore()
    path = tmp_path / "pml.toml"
    path.write_text("a = 1")

    def watch():
        services = FakeServices("audit", store=store)
        made = Recorder(services, Settings())
        return ChangeWatch(services, Settings(), made), made

    first, made = watch()
    await first.look()
    path.write_text("a = 2")
    others = [watch() for _ in range(3)]
    for other, _ in others:
        await other.look()
    for each in (made, *(m for _, m in others)):
        await each.close()
    assert len(rows("config.seen")) == 1
    assert len(rows("config.changed")) == 1


async def test_servers_that_come_and_go_make_a_row(folder, rows):
    from pml_audit.watch import ChangeWatch
    from pml_hookspecs import ServerStatus
    from pml_testing.fakes import FakeCatalog

    catalog = FakeCatalog((), [ServerStatus(name="fs", state="up")])
    services = FakeServices("audit", store=MemoryStore(), catalog=catalog)
    recording = Recorder(services, Settings())
    watch = ChangeWatch(services, Settings(), recording)
    await watch.look()
    catalog._servers = [ServerStatus(name="git", state="starting")]
    await watch.look()
    await recording.close()
    (row,) = rows("servers.changed")
    assert (row["added"], row["removed"]) == (["git"], ["fs"])


async def test_an_approval_by_tool_is_recorded_once_with_who_gave_it(folder, rows):
    async with gateway({"poll_s": 3600}) as made:
        waits = await made.dispatcher.start(Workflow(id="w", tasks=(call("fs:drop"),)), ALICE)
        id = waits.failure.details["approval_id"]
        task = call("pml:answer_approval", approval_id=id, approve=False, reason="no")
        refused = await made.dispatcher.start(task, ALICE)
        assert refused.status is Status.ERROR
        await made.dispatcher.start(task, BOSS)
        (row,) = await until_there(rows, "approval.answered")
        denied = await made.dispatcher.start(Workflow(id="w", tasks=(call("fs:drop"),)), ALICE)
        assert denied.failure.code == "approval.denied"
    assert (row["approval"], row["state"], row["by"], row["principal"]) == (id, "denied", "boss", "alice")
    assert len(rows("approval.answered")) == 1
    assert rows("approval.failed")[0]["principal"] == "alice"
    assert {row["code"] for row in rows("denied")} == {"approval.denied"}


async def test_an_approval_in_a_terminal_is_recorded_too(folder, rows):
    async with gateway() as made:
        waits = await made.dispatcher.start(Workflow(id="w", tasks=(call("fs:drop"),)), ALICE)
        requests = Requests(made.assembly.services("approvals"), ApprovalSettings())
        request = await requests.get(waits.failure.details["approval_id"])
        await requests.answer(request, "approved", by="root")
        (row,) = await until_there(rows, "approval.answered")
    assert (row["state"], row["by"], row["target"]) == ("approved", "root", "fs:drop")


@pytest.mark.attack("The audit stands up", "hide an answered approval behind hundreds of open requests")
async def test_an_answer_has_its_row_however_many_open_requests_stand_above_it(folder, rows):
    store = MemoryStore()
    services = FakeServices("audit", store=store)
    recording = Recorder(services, Settings())
    watch = ChangeWatch(services, Settings(), recording)

    async def put(key, **value):
        await store.documents.put("approvals.requests", key, {"kind": "tool_call", **value}, marks={"state": "x"})

    await put("first", answered_at="1")
    await watch.look()
    await put("second", answered_at="2")
    for number in range(450):
        await put(f"open {number}")
    await watch.look()
    await watch.look()
    await recording.close()
    assert [row["approval"] for row in rows("approval.answered")] == ["first", "second"]


async def test_what_has_its_row_is_remembered_no_longer_than_it_is_looked_at(folder, rows, monkeypatch):
    monkeypatch.setattr("pml_audit.watch.SKEW", timedelta(0))
    monkeypatch.setattr("pml_audit.watch.PAGE", 2)
    services = FakeServices("audit", store=MemoryStore())
    recording = Recorder(services, Settings())
    watch = ChangeWatch(services, Settings(), recording)
    for number in range(20):
        value = {"kind": "tool_call", "answered_at": str(number)}
        await services.store.documents.put("approvals.requests", f"r{number}", value)
        await asyncio.sleep(0.002)  # each has a time of its own
        await watch.look()
    await recording.close()
    assert len(rows("approval.answered")) == 20
    assert len(watch._noted["approvals.requests"]) < 5


# What is changed by commands, and by the gateway itself


async def test_a_change_has_a_row_of_its_own_kind_and_none_that_the_audit_says_of_itself(folder, rows):
    async with gateway() as made:
        services = made.assembly.services("execution_tools")
        for code in ("history.pruned", "audit.broken", ""):
            about = {"by": "root", "deleted": 7, "n": 1, "hash": "x", "kind": "y"}
            await services.find(ACCESS).report(
                AccessEvent(kind="change", target="executions", code=code, details=about)
            )
        (pruned,) = rows("history.pruned")
        assert (pruned["by"], pruned["deleted"], pruned["target"]) == ("root", 7, "executions")
        assert "principal" not in pruned
        assert len(rows("change")) == 2
        assert rows("audit.broken") == []
    assert verify(folder).broken is None


async def test_what_a_store_deleted_by_itself_has_a_row(folder, rows):
    async with gateway() as made:
        event = {"kind": "history.pruned", "at": "2026-01-01", "target": "executions", "executions": 5}
        await made.store.documents.put("history.events", "one", event)
        (row,) = await until_there(rows, "history.pruned")
    assert (row["executions"], row["happened_at"]) == (5, "2026-01-01")


async def test_a_tool_that_is_hidden_answers_as_none_and_has_its_row(folder, rows):
    def hidden(entry, session):
        return entry.name != "drop"

    hidden.hides = True
    async with gateway(plugins={("hooks", "hides"): hooks(filters=[hidden])}) as made:
        told = await made.dispatcher.start(call("fs:drop"), ALICE)
        (row,) = rows("refused")
    assert told.failure.code == "tool.unknown"
    assert (row["target"], row["principal"], row["code"]) == ("fs:drop", "alice", "policy.hidden")


# What happened to keys


async def test_what_happened_to_keys_and_agents_has_a_row_each_in_order(folder, rows):
    from pml_access import plugin as keys
    from pml_access.events import Refusals, note

    async with gateway({"poll_s": 3600}, {("guards", "access"): keys}) as made:
        access = made.assembly.services("access")
        await note(access, "key.created", key="k1", principal="alice", by="root", allow=("fs:*",), hash="x", n=7)
        await note(access, "agent.changed", agent="worker", verb="own", other="alice", by="root")
        await note(access, "strange", key="k1")
        Refusals(access).note("k1", "The API key was revoked")
    made, changed, refused = (row for row in rows() if row["kind"].partition(".")[0] in ("key", "agent", "strange"))
    assert (made["kind"], made["key"], made["principal"], made["allow"]) == ("key.created", "k1", "alice", ["fs:*"])
    assert (changed["kind"], changed["agent"], changed["verb"]) == ("agent.changed", "worker", "own")
    assert (refused["kind"], refused["reason"], refused["times"]) == ("key.refused", "The API key was revoked", 1)
    assert verify(folder).broken is None


async def test_of_several_gateways_one_writes_the_row_and_a_failure_only_delays_it(folder, rows, monkeypatch):
    from pml_access.events import note
    from pml_audit import watch

    store = MemoryStore()
    monkeypatch.setattr(watch, "CLAIM_S", 0.01)
    for number in range(5):
        await note(FakeServices("access", store=store), "key.created", key=f"k{number}")

    def one():
        services = FakeServices("audit", store=store)
        made = Recorder(services, Settings())
        return watch.ChangeWatch(services, Settings(), made), made

    (first, made), (second, other) = one(), one()
    real, calls = made.record, []

    def broken(kind, **about):
        calls.append(kind)
        if len(calls) == 3:
            raise OSError("out of order")
        return real(kind, **about)

    monkeypatch.setattr(made, "record", broken)
    with pytest.raises(OSError, match="out of order"):
        await first.look()
    await asyncio.sleep(0.02)  # its claim on the third is over
    for each in (second, first, second):
        await each.look()
    await made.close()
    await other.close()
    assert [row["key"] for row in rows("key.created")] == [f"k{number}" for number in range(5)]


async def test_a_use_and_a_denial_name_the_key(folder, rows):
    async with gateway() as made:
        for key in ("k1", "k2", "k1"):
            await made.dispatcher.start(call("fs:read"), replace(ALICE, access_key=key))
        await made.dispatcher.start(call("fs:drop"), replace(ALICE, principal="mallory", access_key="k3"))
        assert [row["key"] for row in rows("key.used")] == ["k1", "k2", "k3"]
        assert rows("denied")[0]["key"] == "k3"


async def test_what_is_hidden_makes_a_row_when_it_is_asked_for(folder, rows):
    from pml_agents import plugin as agents

    async with gateway(plugins={("hooks", "agents"): agents}) as made:
        client = Client(made, principal="carol")
        await client.initialize()
        told = await client.call("chat_with_agent", {"agent_name": "nobody", "message": "hello"})
        (row,) = rows("refused")
    assert told["isError"]
    assert (row["target"], row["principal"], row["code"]) == ("pml:chat_with_agent", "carol", "arguments.invalid")
    assert "nobody" in row["message"]


# What is in a row


async def test_secrets_are_in_no_row(folder, rows):
    async with gateway({"queries": ["fs:*"]}) as made:
        made.redactor.learn(["sesame-open"])
        await made.dispatcher.start(call("fs:read", token="sesame-open"), ALICE, RunOptions(intent="say sesame-open"))
        await made.dispatcher.start(
            call("fs:drop"), replace(ALICE, principal="mallory"), RunOptions(intent="say sesame-open")
        )
    assert "sesame" not in (folder / "audit.jsonl").read_text()
    assert len(rows()) >= 4


@pytest.mark.parametrize(
    "arguments", [{"a": object()}, {"a": "x" * 3_000_000}, {str(n): "y" * 900 for n in range(2000)}]
)
async def test_arguments_of_any_kind_leave_a_row_of_bearable_size(folder, rows, arguments):
    services = FakeServices("audit", store=MemoryStore())
    recording = Recorder(services, Settings())
    task = call("pml:list_recent_executions", **arguments)
    ended = await Audit(recording, Settings())(task, FakeRun(), Next())
    assert ended.status is Status.OK
    await recording.close()
    (row,) = rows("query")
    assert row["target"] == "pml:list_recent_executions"
    assert len(json.dumps(row)) < 1 << 20
    assert verify(folder).broken is None
