"""What a server lists takes neither its other tools away nor the gateway's time from others."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager

import pytest
from gate import Gate

from pml_testing import hostile_schemas

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
        result = {"content": [{"type": "text", "text": "answered " + params["name"]}]}
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
