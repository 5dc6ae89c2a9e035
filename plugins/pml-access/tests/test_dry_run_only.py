"""Nothing that a client, a plan, a schedule or a human says gets anything past the lock ``dry_run_only``."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing, contextmanager

import httpx2
import pytest
from gate import PATIENCE_S, Gate

LIVE, READS = "pml/dry_run", "reads"
MARKING = """
import json, pathlib, sys, time
marks = pathlib.Path(sys.argv[1])
for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params") or {}
    if "id" not in message:
        continue
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"],
                  "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
                  "serverInfo": {"name": "marking", "version": "1"}}
    elif method == "tools/list":
        says = {"name": "pay", "description": "Pays an amount.", "inputSchema": {"type": "object"}}
        result = {"tools": [says, {**says, "name": "look", "annotations": {"readOnlyHint": True}},
                            {**says, "name": "wire", "annotations": {"destructiveHint": True}},
                            {**says, "name": "slow"}]}
    elif method == "tools/call":
        with marks.open("a") as file:
            file.write(json.dumps(params) + "\\n")
        if params["name"] == "slow":
            while not (marks.parent / "go").exists():
                time.sleep(0.05)
        result = {"content": [{"type": "text", "text": "paid"}]}
    elif method == "resources/list":
        result = {"resources": [{"uri": "bank://account", "name": "account"}]}
    elif method == "prompts/list":
        result = {"prompts": [{"name": "greet"}]}
    elif method.endswith("/list") or method in ("ping", "server/discover"):
        result = {}
    else:
        with marks.open("a") as file:
            file.write(method + "\\n")
        result = {"contents": [], "messages": []}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
"""Leaves a mark of every call that reaches it; ``slow`` waits until the file ``go`` is there."""
EVERY_SECOND = """
[plugins.schedules.schedules.ping]
every_s = 1
tool = "bank:pay"
"""
LOCKS = ("gateway", "endpoint", "key")


class Bank(Gate):
    """A gateway with a server whose calls leave marks."""

    def __init__(self, folder, configuration=""):
        super().__init__(folder, configuration)
        (folder / "marking.py").write_text(MARKING)
        self.marks = folder / "marks"
        self.server("bank", script=None)
        self.change(json.dumps([str(folder / "server.py")]), json.dumps([str(folder / "marking.py"), str(self.marks)]))

    def reached(self):
        """What reached the server."""
        return self.marks.read_text().splitlines() if self.marks.exists() else []

    def change(self, before, after):
        text = self.config.read_text()
        assert before in text
        self.config.write_text(text.replace(before, after))


def bank(folder, lock, more=""):
    """A gateway that has one lock, and a key of which nothing else is special."""
    configuration = f"[gateway]\ndry_run_only = {json.dumps(lock == 'gateway')}\n"
    configuration += f"[endpoints.shop]\ndry_run_only = {json.dumps(lock == 'endpoint')}\n"
    made = Bank(folder, configuration + more)
    made.alice = made.key("--user", "alice", *(["--dry-run-only"] if lock == "key" else []))
    made.path = "/mcp/shop" if lock == "endpoint" else "/mcp"
    return made


@pytest.fixture(scope="module", params=LOCKS)
def locked(request, tmp_path_factory):
    """One gateway for each lock: what is tried on it changes nothing, which is what is tested."""
    with bank(tmp_path_factory.mktemp("bank"), request.param).serving() as made:
        made.lock = request.param
        yield made


def modern(caller, name, meta=None, **arguments):
    """A call of the revision without sessions; the whole answer."""
    return caller.ask("tools/call", name=name, arguments=arguments, meta=meta)


@contextmanager
def legacy(gate, key):
    """A session of the revision with a handshake: asks for a method with params."""
    headers = {"authorization": f"Bearer {key}", "accept": "application/json, text/event-stream"}
    with httpx2.Client(base_url=gate.url, headers=headers, timeout=PATIENCE_S) as http:
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        began = http.post(gate.path, json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about})
        session = {"mcp-session-id": began.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        http.post(gate.path, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)

        def ask(method, **params):
            body = {"jsonrpc": "2.0", "id": 2, "method": method, "params": params}
            answer = http.post(gate.path, json=body, headers=session)
            text = answer.text
            if "event-stream" in answer.headers["content-type"]:
                text = [line[5:] for line in text.splitlines() if line.startswith("data:") and '"id":2' in line][-1]
            return json.loads(text)

        yield ask


def plan(*tasks, **more):
    return {"workflow": {"tasks": list(tasks), **more}}


PAY = {"id": "a", "tool": "bank:pay", "arguments": {"amount": 5}}
CODE = {"id": "c", "type": "code_execution", "language": "python", "code": "return await tools.bank.pay(amount=5)"}
CAPABILITY = {**CODE, "id": "k", "type": "capability", "capability_id": "payer"}
INNER = {"id": "w", "type": "workflow", "workflow": {"tasks": [PAY], "dry_run": False}, "dry_run": False}
WAYS = {
    "a call": ("bank__pay", {"amount": 5}),
    "a call by its id": ("bank:pay", {"amount": 5}),
    "call_tool": ("call_tool", {"tool": "bank:pay", "arguments": {"amount": 5}}),
    "a tool that says that it only reads": ("bank__look", {}),
    "a plan": ("execute_workflow", {**plan(PAY), "dry_run": False}),
    "a plan that would read": ("execute_workflow", {**plan({"id": "r", "tool": "bank:look"}), "dry_run": "reads"}),
    "a durable plan": ("execute_workflow", {**plan(PAY, durable=True), "dry_run": False}),
    "code": ("run_code", {"code": CODE["code"], "language": "python"}),
    "code in a plan": ("execute_workflow", {**plan(CODE), "dry_run": False}),
    "a capability": ("execute_workflow", {**plan(CAPABILITY), "dry_run": False}),
    "a plan in a plan": ("execute_workflow", {**plan(INNER), "dry_run": False}),
    "work in the background": ("execute_workflow", {**plan(PAY), "dry_run": False, "async": True}),
    "compensation": (
        "execute_workflow",
        {**plan({**PAY, "compensate": {"tool": "bank:pay"}}, {"id": "b", "tool": "bank:none"}), "dry_run": False},
    ),
}


@pytest.mark.attack(
    "A rehearsal-only key rehearses", "ask for a real call, plan, piece of code or capability, by argument and _meta"
)
def test_whatever_is_asked_for_is_rehearsed(locked):
    with locked.caller(locked.alice, path=locked.path) as alice, legacy(locked, locked.alice) as asked:
        for way, (name, arguments) in WAYS.items():
            for meta in ({}, {LIVE: False}, {LIVE: READS}):
                said = [
                    alice.ask("tools/call", name=name, arguments=arguments, meta=meta),
                    asked("tools/call", name=name, arguments=arguments, _meta=meta),
                ]
                assert not locked.reached(), (way, meta, said)
        wait_for(lambda: is_over(locked))
        assert not locked.reached()
        assert all(row["dry_run"] for row in rows(locked) if row["kind"] == "workflow")


@pytest.mark.attack(
    "A rehearsal-only key rehearses", "read a resource, get a prompt, subscribe, complete, or call a method"
)
def test_requests_besides_calls_reach_no_server(locked):
    greet = {"ref": {"type": "ref/prompt", "name": "bank__greet"}, "argument": {"name": "a", "value": "b"}}
    requests = (
        ("resources/read", {"uri": "bank://account"}),
        ("resources/subscribe", {"uri": "bank://account"}),
        ("prompts/get", {"name": "bank__greet"}),
        ("completion/complete", greet),
        ("tasks/cancel", {"taskId": "t"}),
        ("bank/withdraw", {}),
    )
    with locked.caller(locked.alice, path=locked.path) as alice, legacy(locked, locked.alice) as asked:
        listed = asked("resources/list"), asked("prompts/list")
        assert "bank" in json.dumps(listed)
        for method, params in requests:
            for meta in ({}, {LIVE: False}, {LIVE: READS}):
                said = alice.ask(method, **params, meta=meta), asked(method, **params, _meta=meta)
                assert not locked.reached(), (method, meta, said)


def rows(gate):
    """All that was recorded, as far as it matters here."""
    with closing(sqlite3.connect(gate.folder / "home" / "pml.db")) as store:
        store.row_factory = sqlite3.Row
        return store.execute("SELECT kind, target, status, dry_run FROM execution").fetchall()


def test_the_answer_the_list_the_status_and_the_log_say_so(locked):
    with locked.caller(locked.alice, path=locked.path) as alice:
        for name, meta in (("bank__pay", {LIVE: False}), ("execute_workflow", {})):
            more = {**plan(PAY), "dry_run": False} if name == "execute_workflow" else {}
            result = alice.ask("tools/call", name=name, arguments=more, meta=meta)["result"]
            assert "Only rehearsals are allowed here" in result["content"][-1]["text"]
            assert f"dry_run_only of the {locked.lock}" in result["_meta"]["pml/dry_run_only"]
        assert "pml/dry_run_only" not in alice.call("bank__pay")["result"]["_meta"]
        assert alice.status()["dry_run_only"] == [locked.lock]
        listed = {tool["name"]: tool for tool in alice.ask("tools/list")["result"]["tools"]}
    argument = listed["execute_workflow"]["inputSchema"]["properties"]["dry_run"]
    assert argument["default"] is True
    assert f"dry_run_only of the {locked.lock}" in argument["description"]
    if locked.lock == "key":
        assert "rehearsed only" in locked.pml("keys", "list")
        return
    wait_for(lambda: "gateway is running" in locked.log.read_text())
    named = {"gateway": "gateway", "endpoint": "endpoints.shop"}[locked.lock]
    assert f"dry_run_only=['{named}']" in locked.log.read_text()


def wait_for(holds):
    until_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until_s
        time.sleep(0.1)


def is_over(gate):
    """Whether nothing is under way."""
    return all(row["status"] not in ("pending", "running") for row in rows(gate))


def test_who_is_not_locked_is_served_for_real(tmp_path):
    with bank(tmp_path, "key").serving() as made, made.caller(made.key("--user", "bob")) as bob:
        assert bob.text("bank__pay", amount=1) == "paid"
        assert "dry_run_only" not in bob.status()
        argument = {t["name"]: t for t in bob.ask("tools/list")["result"]["tools"]}["execute_workflow"]
        assert argument["inputSchema"]["properties"]["dry_run"]["default"] is False
        bob.ask("resources/read", uri="bank://account")
        bob.ask("prompts/get", name="bank__greet")
        assert made.reached()[-2:] == ["resources/read", "prompts/get"]


@pytest.mark.attack("A rehearsal-only key rehearses", "have a schedule call a tool in a gateway that only rehearses")
def test_a_schedule_is_rehearsed(tmp_path):
    with bank(tmp_path, "gateway", EVERY_SECOND).serving() as made:
        wait_for(lambda: any(row["target"] == "bank:pay" for row in rows(made)))
        assert not made.reached()


@pytest.mark.attack(
    "A rehearsal-only key rehearses", "have a real plan approved, or let it go on, after the lock was switched on"
)
@pytest.mark.parametrize("lock", ["gateway", "key"])
def test_a_lock_that_is_switched_on_holds_for_what_waits_for_a_human(tmp_path, lock):
    made = bank(tmp_path, "none")
    with made.serving(), made.caller(made.alice) as alice:
        wire = {"id": "a", "tool": "bank:wire"}
        waits = json.loads(
            alice.text("execute_workflow", **plan(wire, {**PAY, "id": "b", "depends_on": ["a"]}), dry_run=False)
        )
        assert waits["status"] == "input_required", waits
        switch_on(made, lock)
        asked = json.loads(made.pml("approvals", "list", "--json"))
        approval = (asked["approvals"] if isinstance(asked, dict) else asked)[0]
        made.pml("approvals", "approve", approval.get("id") or approval["approval_id"])
        went_on = alice.text("continue_workflow", workflow_id=waits["workflow_id"], decision="continue")
        assert not made.reached(), went_on


@pytest.mark.attack(
    "A rehearsal-only key rehearses",
    "switch the lock on while a real plan is under way, and see its next step reach the server",
)
@pytest.mark.parametrize("lock", ["gateway", "key"])
def test_a_lock_that_is_switched_on_stops_what_is_under_way(tmp_path, lock):
    made = bank(tmp_path, "none")
    with made.serving(), made.caller(made.alice) as alice:
        steps = plan({"id": "s", "tool": "bank:slow"}, {**PAY, "depends_on": ["s"]})
        alice.text("execute_workflow", **steps, **{"async": True})
        wait_for(made.reached)
        switch_on(made, lock)
        (tmp_path / "go").touch()
        wait_for(lambda: is_over(made))
        assert len(made.reached()) == 1
        plan_row = next(row for row in rows(made) if row["kind"] == "workflow")
        assert plan_row["status"] != "ok"


def switch_on(made, lock):
    """Switch a lock on in a running gateway, and wait until that is said, or must be so."""
    if lock == "key":
        made.keys("lock", json.loads(made.keys("list", "--json"))[0]["id"])
        time.sleep(2.5)  # as long as what was said of a key counts
        return
    made.change("dry_run_only = false\n[endpoints", "dry_run_only = true\n[endpoints")
    wait_for(lambda: "is in force" in made.log.read_text())


@pytest.mark.attack(
    "A rehearsal-only key rehearses", "take the plugin away that rehearses, and call a tool under the lock"
)
@pytest.mark.parametrize("lock", LOCKS)
def test_where_nobody_rehearses_everything_is_refused(tmp_path, lock):
    made = bank(tmp_path, lock)
    made.change("[gateway]\n", '[gateway]\nblock = ["pml-dry-run"]\n')
    with made.serving(), made.caller(made.alice, path=made.path) as alice:
        for name, arguments in WAYS.values():
            alice.ask("tools/call", name=name, arguments=arguments, meta={LIVE: False})
        assert "no installed plugin simulates" in alice.text("bank__pay")
        assert not made.reached()
