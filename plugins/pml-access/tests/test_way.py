"""One way through means all of MCP: resources, prompts, tasks and unknown methods, through a real gateway."""

from __future__ import annotations

import json

import pytest
from gate import Gate, others

SERVER = """
import json, sys
marker = sys.argv[1] if len(sys.argv) > 1 else ""
tasks = 0
for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params") or {}
    if "id" not in message:
        continue
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "serverInfo": {"name": "way", "version": "1"},
                  "capabilities": {"tools": {}, "prompts": {}, "completions": {}, "tasks": {"list": {}},
                                   "resources": {"subscribe": True}, "extensions": {"io.vendor/jobs": {}}}}
    elif method == "tools/list":
        result = {"tools": [{"name": "begin", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        tasks += 1
        result = {"content": [], "task": {"taskId": f"task-{tasks}", "status": "working"}}
    elif method == "resources/list":
        result = {"resources": [{"uri": "note://public/a", "name": "a"}, {"uri": "note://secret/b", "name": "b"}]}
    elif method == "resources/templates/list":
        result = {"resourceTemplates": [{"uriTemplate": "note://{which}/{id}", "name": "note"}]}
    elif method == "prompts/list":
        result = {"prompts": [{"name": "greet"}, {"name": "secret"}]}
    else:
        with open(MARKER, "a") as file:
            file.write(f"{method} {json.dumps(params)}\\n")
        result = {"contents": [{"uri": params.get("uri", ""), "text": "x"}], "messages": [],
                  "completion": {"values": ["v"]}, "tasks": [{"taskId": f"task-{n}"} for n in range(1, 9)]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
LIMITS = """
[plugins.limits.rules.all]
per = ["principal"]
rate = "3/hour"
"""


@pytest.fixture
def gate(tmp_path):
    return made(tmp_path)


def made(folder, configuration="", **server):
    gate = Gate(folder, configuration)
    gate.marker = folder / "marker.txt"
    gate.server("notes", script=SERVER.replace("MARKER", repr(str(gate.marker))), **server)
    return gate


def reached(gate):
    """The methods that the server was asked besides beginning, listing and calling tools."""
    lines = gate.marker.read_text().splitlines() if gate.marker.exists() else []
    return [method for line in lines if (method := line.split()[0]) != "server/discover"]


def refusal(answer):
    return answer["error"]["message"]


def audit(gate):
    return [json.loads(line) for line in gate.pml("audit", "export").splitlines() if line.strip()]


FORBIDDEN = (
    ("resources/read", {"uri": "note://secret/b"}, "Resource not found: note://secret/b"),
    ("resources/read", {"uri": "note://public/../secret/b"}, "Resource not found: note://public/../secret/b"),
    ("resources/read", {"uri": "note://secret/notes:@resource/note://public/"}, "Resource not found"),
    ("prompts/get", {"name": "notes__secret"}, "Unknown prompt: notes__secret"),
    ("prompts/get", {"name": "secret"}, "Unknown prompt: secret"),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "notes__secret"}, "argument": {}}, "Unknown prompt"),
    (
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": "note://{which}/{id}"}, "argument": {}},
        "Resource not found",
    ),
    ("jobs/start", {}, "Method not found: jobs/start"),
    ("tasks/list", {}, "Method not found: tasks/list"),
)


@pytest.mark.attack("One way through means all of MCP", "read, get and complete what a key's patterns do not allow")
def test_a_key_has_only_the_resources_and_prompts_that_its_patterns_allow(gate):
    some = gate.key("--user", "some", "--allow", "notes:@resource/note://public/*", "--allow", "notes:@prompt/greet")
    tools = gate.key("--user", "tools", "--allow", "notes:b*", "--allow", "*:@nothing/*")
    every = gate.key("--user", "every", "--allow", "notes:*", "--deny", "notes:@prompt/s*")
    with gate.serving():
        with gate.caller(some) as caller:
            assert others(caller.ask("resources/list")) == ["note://public/a"]
            assert others(caller.ask("prompts/list")) == ["notes__greet"]
            for method, params, message in FORBIDDEN:
                assert message in refusal(caller.ask(method, **params)), (method, params)
            assert reached(gate) == []
            assert caller.ask("resources/read", uri="note://public/a")["result"]["contents"]
            assert caller.ask("prompts/get", name="notes__greet")["result"]["messages"] == []
        with gate.caller(tools) as caller:
            assert others(caller.ask("resources/list")) == []
            assert others(caller.ask("prompts/list")) == []
            for method, params, message in (*FORBIDDEN, ("resources/read", {"uri": "note://public/a"}, "not found")):
                assert message in refusal(caller.ask(method, **params)), (method, params)
        with gate.caller(every) as caller:
            assert others(caller.ask("resources/list")) == ["note://public/a", "note://secret/b"]
            assert "Unknown prompt" in refusal(caller.ask("prompts/get", name="notes__secret"))
            assert caller.ask("prompts/get", name="notes__greet")["result"]
            assert "Method not found" in refusal(caller.ask("jobs/start"))
    assert reached(gate) == ["resources/read", "prompts/get", "prompts/get"]


@pytest.mark.attack("One way through means all of MCP", "get, list, await and cancel the tasks of another key")
def test_tasks_are_of_the_key_that_they_were_given_to(gate):
    alice, bob = gate.key("--user", "alice", "--allow", "notes:*"), gate.key("--user", "bob", "--allow", "notes:*")
    knows = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    with gate.serving(), gate.caller(alice) as one, gate.caller(bob) as other:
        one.call("notes__begin")
        for method in ("tasks/get", "tasks/cancel", "tasks/update", "tasks/result"):
            for id in ("task-1", "task-7"):
                assert "There is no task" in refusal(other.ask(method, knows, taskId=id))
        assert reached(gate) == []
        assert "error" not in one.ask("tasks/get", knows, taskId="task-1")
        assert one.ask("tasks/list", knows)["result"]["tasks"] == [{"taskId": "task-1"}]
        assert other.ask("tasks/list", knows)["result"]["tasks"] == []


@pytest.mark.attack("One way through means all of MCP", "send a method that nobody knows to a blacklisted server")
def test_a_blacklisted_server_is_asked_nothing(tmp_path):
    blacklist = '[plugins.hybrid]\nblacklisted_tools = ["notes:*"]\n'
    gate = made(tmp_path, blacklist, methods=["jobs/*"])
    key = gate.key("--user", "alice")
    with gate.serving(), gate.caller(key) as caller:
        assert others(caller.ask("resources/list")) == []
        for method, params in (
            ("jobs/start", {}),
            ("resources/read", {"uri": "note://public/a"}),
            ("prompts/get", {"name": "notes__greet"}),
            ("tasks/list", {}),
        ):
            assert "not allowed here (refused by 'hybrid')" in refusal(caller.ask(method, **params)), method
    assert reached(gate) == []
    denied = [row for row in audit(gate) if row["kind"] == "denied"]
    assert {row["target"].split()[0] for row in denied} == {"jobs/start", "resources/read", "prompts/get", "tasks/list"}


@pytest.mark.attack("One way through means all of MCP", "send requests that are no calls of tools in a rehearsal")
def test_a_rehearsal_asks_servers_nothing(tmp_path):
    gate = made(tmp_path, '[gateway]\nexecution_mode = "dry_run"\n', methods=["jobs/*"])
    key = gate.key("--user", "alice")
    with gate.serving(), gate.caller(key) as caller:
        for method, params in (("jobs/start", {}), ("resources/read", {"uri": "note://public/a"})):
            answer = caller.ask(method, **params)
            assert answer["error"]["data"]["code"] == "dry_run.unavailable", answer
    assert reached(gate) == []


def test_what_is_asked_besides_tools_is_in_the_history_and_limited(tmp_path):
    gate = made(tmp_path, LIMITS, methods=["jobs/*"])
    key = gate.key("--user", "alice")
    with gate.serving(), gate.caller(key) as caller:
        for method, params in (
            ("resources/read", {"uri": "note://public/a"}),
            ("prompts/get", {"name": "notes__greet"}),
            ("jobs/start", {"n": 1}),
        ):
            assert "result" in caller.ask(method, **params)
        answer = caller.ask("resources/read", uri="note://public/a")
        assert answer["error"]["data"]["code"] == "limit.rate"
    assert reached(gate) == ["resources/read", "prompts/get", "jobs/start"]
    rows = json.loads(gate.pml("executions", "list", "--json"))
    rows = rows["executions"] if isinstance(rows, dict) else rows
    said = " ".join(row["message"] for row in rows)
    assert len(rows) == 4
    assert all(
        name in said for name in ("notes:@resource/note://public/a", "notes:@prompt/greet", "notes:@method/jobs/start")
    )
