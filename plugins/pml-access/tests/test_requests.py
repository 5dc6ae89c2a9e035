"""What the holder of a key can reach of servers past their tools: resources, prompts, tasks, methods of vendors."""

from __future__ import annotations

import json
from itertools import count

import httpx2
import pytest
from gate import MODERN, PATIENCE_S, Gate, others

LEGACY = "2025-11-25"
TASKS = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
SERVER = """
import json, sys
name, marker, number, tasks = sys.argv[1], sys.argv[2], 0, {}
CAN = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}, "completions": {}, "tasks": {"list": {}}}
def noted(method, params):
    with open(marker, "a") as file:
        file.write(f"{name} {method} {params.get('uri') or params.get('name') or params.get('taskId') or ''}\\n")
def answer(method, params):
    global number
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": CAN,
                "serverInfo": {"name": "scripted", "version": "1"}}
    if method == "tools/list":
        return {"tools": [{"name": tool, "description": tool, "inputSchema": {"type": "object"}}
                          for tool in ("slow", "read")]}
    if method == "resources/list":
        return {"resources": [{"uri": f"{name}:///{one}", "name": one} for one in ("open", "secret")]}
    if method == "resources/templates/list":
        return {"resourceTemplates": [{"uriTemplate": f"{name}:///by/{{one}}", "name": "by"}]}
    if method == "prompts/list":
        return {"prompts": [{"name": "greet"}, {"name": "betray"}]}
    if method in ("server/discover", "ping"):
        return None
    noted(method, params)
    if method == "tools/call" and params["name"] == "slow":
        number += 1
        tasks[f"{name}-{number}"] = "working"
        return {"task": {"taskId": f"{name}-{number}", "status": "working"}}
    if method == "tools/call":
        return {"content": []}
    if method == "tasks/list":
        return {"tasks": [{"taskId": id, "status": status} for id, status in tasks.items()]}
    if method == "tasks/cancel":
        tasks[params["taskId"]] = "cancelled"
    if method.startswith("tasks/"):
        return {"taskId": params["taskId"], "status": tasks[params["taskId"]]}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": "words"}]}
    if method == "prompts/get":
        return {"messages": []}
    if method == "completion/complete":
        return {"completion": {"values": ["one"]}}
    return {}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    told = answer(message["method"], message.get("params") or {})
    said = {"error": {"code": -32601, "message": "no"}} if told is None else {"result": told}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}), flush=True)
"""
RULES = """
[plugins.hybrid]
blacklisted_tools = ["shut:*", "files:@prompt/betray"]

[plugins.limits.rules.of_carol]
principal = "carol"
rate = "3/day"

[plugins.approvals]
require = ["*:@resource/*approve*"]
"""


class Legacy:
    """One who asks in a session with a handshake."""

    def __init__(self, url, key):
        headers = {"authorization": f"Bearer {key}", "accept": "application/json, text/event-stream"}
        self._http, self._numbers = httpx2.Client(base_url=url, headers=headers, timeout=PATIENCE_S), count(1)
        about = {"name": "legacy", "version": "1"}
        self.ask("initialize", protocolVersion=LEGACY, capabilities={}, clientInfo=about)
        self._http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"})

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._http.close()

    def ask(self, method, **params):
        message = {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": params}
        response = self._http.post("/mcp", json=message)
        if session := response.headers.get("mcp-session-id"):
            self._http.headers["mcp-session-id"] = session
        text = response.text
        if response.headers["content-type"].startswith("text/event-stream"):
            said = [json.loads(line[5:]) for line in text.splitlines() if line.startswith("data:") and line[5:].strip()]
            return next(one for one in said if one.get("id") == message["id"])
        return json.loads(text)


class Place(Gate):
    """A gate whose servers note what reaches them."""

    def __init__(self, folder, configuration=RULES, **more):
        super().__init__(folder, configuration)
        self.marker = folder / "marker.txt"
        (folder / "requests.py").write_text(SERVER)
        for name in ("files", "shut"):
            self.server(name, **more)

    def server(self, name, *_tools, **more):
        command = [str(self.folder / "requests.py"), name, str(self.marker)]
        super().server(name, *command, **more)
        text = self.config.read_text().replace(
            json.dumps([str(self.folder / "server.py"), *command]), json.dumps(command)
        )
        self.config.write_text(text)

    def asking(self, era, key):
        return Legacy(self.url, key) if era == LEGACY else self.caller(key)

    def reached(self):
        """What servers were asked since the last time."""
        found = self.marker.read_text().splitlines() if self.marker.exists() else []
        self.marker.unlink(missing_ok=True)
        return found

    def history(self):
        """State and target of every row."""
        rows = json.loads(self.pml("executions", "list", "--json", "--limit", "1000"))["executions"]
        return {(row["status"], row["message"].partition(" ")[0]) for row in rows}

    def audited(self):
        """Kind, principal and target of every row of the audit."""
        rows = [json.loads(line) for line in (self.folder / "home" / "audit" / "audit.jsonl").read_text().splitlines()]
        return {(row["kind"], row.get("principal"), row.get("target")) for row in rows}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    made = Place(tmp_path_factory.mktemp("gate"), methods=["vendor/*"])
    made.alice = made.key("--user", "alice")
    made.bob = made.key(
        "--user", "bob", "--allow", "files:*", "--allow", "shut:*", "--deny", "files:@resource/*secret*"
    )
    made.tools = made.key("--user", "tess", "--allow", "files:re*")
    made.nothing = made.key("--user", "nobody", "--allow", "none:at_all")
    made.carol = made.key("--user", "carol")
    made.some = made.key("--user", "sam", "--allow", "files:@resource/files:///open", "--allow", "files:@prompt/gr*")
    with made.serving():
        with made.caller(made.alice) as alice:
            alice.call("files:read")
        yield made


@pytest.fixture(params=[LEGACY, MODERN])
def era(request):
    return request.param


@pytest.fixture(autouse=True)
def forget(place):
    place.reached()


def refused(answer, *codes):
    assert answer["error"]["code"] in codes, answer
    return answer["error"]["message"]


# Tasks are their principal's


@pytest.mark.attack(
    "One way through means all of MCP", "list, read and cancel the task that somebody else's call was given"
)
def test_a_task_is_its_principals(place, era):
    with place.asking(era, place.alice) as alice, place.asking(era, place.bob) as bob:
        id = alice.ask("tools/call", name="files:slow", arguments={})["result"]["task"]["taskId"]
        place.reached()
        declared = {"capabilities": TASKS} if era == MODERN else {}
        for method in ("tasks/get", "tasks/result", "tasks/cancel", "tasks/update"):
            said = refused(bob.ask(method, taskId=id, **declared), -32602)
            assert said.replace(id, "made-up") == refused(bob.ask(method, taskId="made-up", **declared), -32602)
        assert place.reached() == []
        own = bob.ask("tools/call", name="files:slow", arguments={})["result"]["task"]["taskId"]
        listed = {task["taskId"] for task in bob.ask("tasks/list")["result"]["tasks"]}
        assert (own in listed, id in listed) == (True, False)
        assert alice.ask("tasks/get", taskId=id)["result"]["status"] == "working"
        assert alice.ask("tasks/cancel", taskId=id)["result"]["status"] == "cancelled"


@pytest.mark.attack(
    "One way through means all of MCP", "cancel the task of one's own principal with a key that may not call its tool"
)
def test_a_key_that_may_not_call_the_tool_has_none_of_its_tasks(place, era):
    narrow = place.key("--user", "alice", "--allow", "files:read", "--allow", "files:@method/tasks/*")
    with place.asking(era, place.alice) as alice, place.asking(era, narrow) as other:
        id = alice.ask("tools/call", name="files:slow", arguments={})["result"]["task"]["taskId"]
        place.reached()
        declared = {"capabilities": TASKS} if era == MODERN else {}
        refused(other.ask("tasks/cancel", taskId=id, **declared), -32602)
        assert place.reached() == []
        assert other.ask("tasks/list")["result"]["tasks"] == []


# Methods that MCP does not name


@pytest.mark.attack("One way through means all of MCP", "have a method that nobody knows run on a server")
@pytest.mark.parametrize("method", ["other/wipe", "notifications/wipe", "tools/wipe", "vendor", "VENDOR/wipe"])
def test_an_unknown_method_reaches_no_server(place, era, method):
    with place.asking(era, place.alice) as alice:
        refused(alice.ask(method, name="x"), -32601)
    assert place.reached() == []


@pytest.mark.attack(
    "One way through means all of MCP", "have a vendor's method run with a key that allows nothing, or only tools"
)
def test_a_vendors_method_needs_a_key_that_allows_it(place, era):
    for key in (place.nothing, place.tools, place.some):
        with place.asking(era, key) as caller:
            refused(caller.ask("vendor/wipe"), -32601)
    assert place.reached() == []


# Resources, prompts, completion, subscriptions


def wanted(server, uri, prompt):
    resource, named = {"type": "ref/resource", "uri": uri}, {"type": "ref/prompt", "name": f"{server}__{prompt}"}
    argument = {"name": "one", "value": ""}
    return [
        ("resources/read", {"uri": uri}),
        ("prompts/get", {"name": f"{server}__{prompt}"}),
        ("completion/complete", {"ref": resource, "argument": argument}),
        ("completion/complete", {"ref": named, "argument": argument}),
    ]


@pytest.mark.attack("One way through means all of MCP", "read, subscribe to and complete what the key does not allow")
def test_a_key_has_the_resources_and_prompts_that_it_allows(place, era):
    for key in (place.nothing, place.tools):
        with place.asking(era, key) as caller:
            for method, params in wanted("files", "files:///open", "greet"):
                said = refused(caller.ask(method, **params), -32002, -32602)
                other = json.loads(json.dumps(params).replace("files:///open", "none:///x").replace("greet", "none"))
                missing = refused(caller.ask(method, **other), -32002, -32602)
                assert said.replace("files:///open", "none:///x").replace("greet", "none") == missing
            assert others(caller.ask("resources/list")) == []
            templates = caller.ask("resources/templates/list")["result"]["resourceTemplates"]
            assert [one for one in templates if not one["uriTemplate"].startswith("pml://")] == []
            assert others(caller.ask("prompts/list")) == []
            if era == LEGACY:
                refused(caller.ask("resources/subscribe", uri="files:///open"), -32002)
                assert caller.ask("logging/setLevel", level="debug")["result"] == {}
    assert place.reached() == []


def test_a_key_reaches_what_its_patterns_name_and_nothing_else(place, era):
    with place.asking(era, place.some) as sam:
        assert others(sam.ask("resources/list")) == ["files:///open"]
        assert others(sam.ask("prompts/list")) == ["files__greet"]
        assert sam.ask("resources/read", uri="files:///open")["result"]["contents"]
        assert "messages" in sam.ask("prompts/get", name="greet")["result"]
        refused(sam.ask("resources/read", uri="files:///by/x"), -32002, -32602)
        assert sam.ask("tools/call", name="files:read", arguments={})["result"]["isError"]
    assert place.reached() == ["files resources/read files:///open", "files prompts/get greet"]


@pytest.mark.attack("One way through means all of MCP", "read a resource that the key denies, listed or by a template")
def test_what_a_key_denies_is_neither_read_nor_listed(place, era):
    with place.asking(era, place.bob) as bob:
        assert "files:///secret" not in json.dumps(bob.ask("resources/list"))
        refused(bob.ask("resources/read", uri="files:///secret"), -32002, -32602)
        refused(bob.ask("resources/read", uri="files:///by/secret"), -32002, -32602)
        assert bob.ask("resources/read", uri="files:///by/x")["result"]["contents"]
    assert place.reached() == ["files resources/read files:///by/x"]


@pytest.mark.attack(
    "One way through means all of MCP", "reach past a blacklist that takes a whole server, by what is no tool"
)
def test_a_blacklisted_server_is_closed_for_all_of_mcp(place, era):
    with place.asking(era, place.alice) as alice:
        for method, params in wanted("shut", "shut:///open", "greet"):
            assert "not allowed here" in refused(alice.ask(method, **params), -31997)
        assert "not allowed here" in refused(alice.ask("prompts/get", name="files__betray"), -31997)
        if era == LEGACY:
            refused(alice.ask("resources/subscribe", uri="shut:///open"), -31997)
        listed = json.dumps([alice.ask(f"{kind}/list") for kind in ("resources", "resources/templates", "prompts")])
        assert "files__greet" in listed
        assert "shut" not in listed
        assert "betray" not in listed
    assert place.reached() == []


# It is work like all other


@pytest.mark.attack("One way through means all of MCP", "be refused without a row in history or audit")
def test_it_is_recorded_and_refusals_are_audited(place):
    with place.caller(place.alice) as alice:
        alice.ask("resources/read", uri="files:///open")
        alice.ask("resources/read", uri="shut:///secret")
        alice.ask("other/wipe")
    with place.caller(place.nothing) as nobody:
        nobody.ask("prompts/get", name="files__greet")
    assert {
        ("success", "files:@resource/files:///open"),
        ("failed", "shut:@resource/shut:///secret"),
        ("failed", "files:@prompt/greet"),
    } <= place.history()
    assert {
        ("denied", "alice", "resources/read shut:@resource/shut:///secret"),
        ("refused", "alice", "other/wipe"),
        ("refused", "nobody", "files:@prompt/greet"),
    } <= place.audited()


@pytest.mark.attack(
    "One way through means all of MCP", "ask for resources and prompts past a rule that limits how often"
)
def test_it_is_limited(place, era):
    with place.asking(era, place.carol) as carol:
        answers = [carol.ask("resources/read", uri="files:///open") for _ in range(5)]
    assert "limit.rate" in json.dumps(answers[-1])
    assert len(place.reached()) <= 3


@pytest.mark.attack("One way through means all of MCP", "read a resource that a human has to approve")
def test_a_human_can_be_asked_first(place, era):
    with place.asking(era, place.alice) as alice:
        assert "waits for a human" in refused(alice.ask("resources/read", uri="files:///by/approve"), -31997)
    assert place.reached() == []


# Rehearsals


@pytest.mark.attack("One way through means all of MCP", "have something reach a server of a gateway that rehearses")
def test_nothing_reaches_a_server_of_a_gateway_that_rehearses(tmp_path):
    rehearsing = Place(tmp_path, '[gateway]\nexecution_mode = "dry_run"\n', methods=["vendor/*"], enabled=True)
    rehearsing.config.write_text(rehearsing.config.read_text().partition("[servers.shut]")[0])
    key = rehearsing.key("--user", "alice")
    with rehearsing.serving():
        for era in (LEGACY, MODERN):
            with rehearsing.asking(era, key) as alice:
                asked = [*wanted("files", "files:///open", "greet"), ("vendor/wipe", {}), ("tasks/list", {})]
                asked += [("resources/subscribe", {"uri": "files:///open"})] if era == LEGACY else []
                for method, params in asked:
                    assert "dry run" in refused(alice.ask(method, **params), -31997)
                reads = {"_meta": {"pml/dry_run": "reads"}}
                if era == LEGACY:
                    assert alice.ask("resources/read", uri="files:///open", **reads)["result"]["contents"]
                    assert "dry run" in refused(alice.ask("vendor/wipe", **reads), -31997)
    assert rehearsing.reached() == ["files resources/read files:///open"]
