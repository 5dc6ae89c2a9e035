"""What a server lists takes neither its other tools away nor the gateway's time from others."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager

import pytest
from gate import Gate

from pml_testing import hostile_schemas
from pml_testing.gateway import value_of

from .raw_gateway import Site

SERVER = """
import json, sys
tools = [json.loads(line) for line in open(sys.argv[1])] if sys.argv[1].endswith(".lines") else open(sys.argv[1]).read()
for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params") or {}
    if "id" not in message:
        continue
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}, "resources": {}},
                  "serverInfo": {"name": "scripted", "version": "1"}}
    elif method == "tools/list":
        if isinstance(tools, str):
            print('{"jsonrpc":"2.0","id":%s,"result":{"tools":%s}}' % (json.dumps(message["id"]), tools), flush=True)
            continue
        result = {"tools": tools}
    elif method == "tools/call":
        text = json.dumps(params["arguments"]) if params["name"] == "echo" else "answered " + params["name"]
        result = {"content": [{"type": "text", "text": text}]}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
GOOD = {"name": "good", "description": "Does good.", "inputSchema": {"type": "object"}}


@contextmanager
def gateway(folder, listed):
    """A gateway with one server that lists ``listed``: text as it is, or definitions."""
    gate = Gate(folder)
    tools = folder / ("tools.json" if isinstance(listed, str) else "tools.lines")
    tools.write_text(listed if isinstance(listed, str) else "\n".join(map(json.dumps, listed)))
    (folder / "bad.py").write_text(SERVER)
    lines = ["[gateway]", 'tools_exposure = "full_proxy"', "[servers.bad]", f"command = {json.dumps(sys.executable)}"]
    lines.append(f"args = {json.dumps([str(folder / 'bad.py'), str(tools)])}")
    gate.config.write_text("\n".join(lines))
    with gate.serving() as gate, gate.caller() as caller:
        yield gate, caller


def names(caller):
    found = caller.ask("tools/list")["result"]["tools"]
    return [tool["name"] for tool in found]


def called(caller, name="bad__good"):
    return caller.ask("tools/call", name=name, arguments={})["result"]["content"][0]["text"]


@pytest.mark.attack("No input stops the house", "list an integer of 5,000 digits, so that a server has no tools at all")
def test_a_definition_that_cannot_be_read_takes_no_other_away(tmp_path):
    bad = '{"name":"bad","inputSchema":{"type":"object","maximum":' + "9" * 5000 + "}}"
    with gateway(tmp_path, f'[{bad},{json.dumps(GOOD)},7,{{"name":"half"}}]') as (gate, caller):
        assert called(caller) == "answered good"
        assert names(caller).count("bad__good") == 1
        assert "bad__bad" not in names(caller)
        assert "an item of a list is left out" in gate.log.read_text()


@pytest.mark.attack("No input stops the house", "list tools with names, and descriptions, of megabytes")
def test_what_is_too_long_is_left_out_and_said(tmp_path):
    tools = [
        {"name": "n" * 2_000_000, "inputSchema": {"type": "object"}},
        {"name": "m" * 2_000, "inputSchema": {"type": "object"}},
        {"name": "long", "description": "d" * 2_000_000, "inputSchema": {"type": "object"}},
        GOOD,
    ]
    with gateway(tmp_path, tools) as (gate, caller):
        assert called(caller) == "answered good"
        told = gate.log.read_text()
        assert told.count("an item of a list is left out") >= 2
        assert "a tool with too long a name is left out" in told
        assert len(told) < 100_000


@pytest.mark.attack("No input stops the house", "list a 2 kB schema of nested allOf, and have everybody wait for it")
def test_a_schema_over_the_bounds_is_passed_on_and_not_read(tmp_path):
    schema = hostile_schemas.HOSTILE["all_of doubled 30 times"]()
    with gateway(tmp_path, [GOOD, {"name": "knot", "inputSchema": schema}]) as (gate, caller):
        assert called(caller, "bad__knot") == "answered knot"
        (shown,) = [tool for tool in caller.ask("tools/list")["result"]["tools"] if tool["name"] == "bad__knot"]
        assert shown["inputSchema"] == schema
        assert "not read here" in gate.log.read_text()
        read = caller.ask("resources/read", uri="pml://status")["result"]["contents"][0]["text"]
        (server,) = json.loads(read)["servers"]
        assert "references" in server["schemas_not_read"]["knot: inputSchema"]


LONG = 1_000_000


@pytest.mark.attack("No input stops the house", "ask with names, addresses, queries and intents of megabytes")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "x" * LONG, "arguments": {}}),
        ("tools/call", {"name": "search_tools", "arguments": {"query": "word " * LONG}}),
        ("tools/call", {"name": "search_tools", "arguments": {"q" * LONG: "word"}}),
        ("tools/call", {"name": "execute_workflow", "arguments": {"intent": "word " * LONG}}),
        ("tools/call", {"name": "bad__good", "arguments": {}, "_meta": {"pml/intent": "word " * LONG}}),
        ("tools/list", {"cursor": "x" * LONG}),
        ("tools/list", {"_meta": {"pml/intent": "word " * LONG}}),
        ("resources/read", {"uri": "file:///" + "x" * LONG}),
        ("resources/list", {"cursor": "9" * LONG}),
        ("prompts/get", {"name": "x" * LONG}),
        ("completion/complete", {"ref": {"type": "ref/resource", "uri": "x" * LONG}, "argument": {}}),
        ("resources/subscribe", {"uri": "x" * LONG}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_too_long_is_refused_in_a_short_message(tmp_path, method, params):
    (tmp_path / "bad.py").write_text(SERVER)
    (tmp_path / "tools.lines").write_text(json.dumps(GOOD))
    site = Site(tmp_path)
    command = f"[servers.bad]\ncommand = {json.dumps(sys.executable)}\n"
    command += f"args = {json.dumps([str(tmp_path / 'bad.py'), str(tmp_path / 'tools.lines')])}"
    with site.serving(f"{command}\n") as client:
        answer = client.ask(method, **params)
        text = json.dumps(answer)
        assert len(text) < 3000
        assert "error" in answer or answer["result"]["isError"]
        assert any(said in text for said in ("characters", "unknown; not given yet", 'query", "message": "is missing'))
        assert client.call("bad__good")["result"]["content"][0]["text"] == "answered good"


@pytest.mark.attack("No input stops the house", "write a plan of thirty lines whose results multiply to gigabytes")
@pytest.mark.parametrize("put_in", ["in a text", "as they are"])
def test_a_plan_that_multiplies_results_is_stopped(tmp_path, put_in):
    tasks = [{"id": "t0", "tool": "bad:echo", "arguments": {"x": "y" * 1000}}]
    for i in range(1, 12):
        reference = f"{{{{t{i - 1}}}}}"
        again = reference * 8 if put_in == "in a text" else [reference] * 8
        tasks.append({"id": f"t{i}", "tool": "bad:echo", "arguments": {"x": again}})
    with gateway(tmp_path, [GOOD, {"name": "echo", "inputSchema": {"type": "object"}}]) as (_, caller):
        answer = caller.ask("tools/call", name="execute_workflow", arguments={"workflow": {"tasks": tasks}})
        told = value_of(answer["result"])["tasks"]
        codes = [task["error"]["code"] for task in told if "error" in task]
        assert codes[0] == "reference.too_large"
        assert called(caller) == "answered good"
