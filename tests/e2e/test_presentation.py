"""Tools as their operator presents them, in a gateway in a process of its own, in front of a server in another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tomllib

import pytest
from jsonschema import Draft202012Validator

from .raw_gateway import PATIENCE_S, Site

ONE, OTHER = "bank__pay", "bank:pay"
EVERY = {f"bank__{name}" for name in ("pay", "flood_questions", "flood_notes", "long_note")}


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


PAY = """
[tools."bank:pay"]
name = "settle"
description = "Settles a bill."
arguments = { amount = 7 }
"""


def text_of(answer):
    return json.dumps(answer.get("result") or answer["error"])


def test_a_server_in_its_own_process_gets_what_is_fixed(site):
    with site.serving(PAY) as client:
        listed = {tool["name"]: tool for tool in client.ask("tools/list")["result"]["tools"]}
        first, second = (json.dumps(client.ask("tools/list")["result"]) for _ in range(2))
        assert first == second
        assert ONE not in listed
        assert listed["settle"]["description"] == "Settles a bill."
        assert "amount" not in json.dumps(listed["settle"])
        assert not client.call("settle")["result"].get("isError")
        assert not client.call(ONE, amount=7)["result"].get("isError")
        plan = {"tasks": [{"id": "a", "tool": "settle"}, {"id": "b", "tool": OTHER, "depends_on": ["a"]}]}
        assert not client.call("execute_workflow", workflow=plan)["result"].get("isError")
        for name in ("settle", ONE, OTHER):
            assert "is fixed in the gateway's configuration" in text_of(client.call(name, amount=8))
    paid = [json.loads(line)["params"]["arguments"] for line in site.payments().splitlines()]
    assert paid == [{"amount": 7}] * 4


def test_toolsets_hold_for_a_server_in_its_own_process(site):
    sets = '[toolsets.none]\ntools = ["bank:no_such_tool"]\n[plugins.presentation.endpoints]\ndefault = ["none"]\n'
    with site.serving(sets) as client:
        assert not any("bank" in tool["name"] for tool in client.ask("tools/list")["result"]["tools"])
        for name in (ONE, OTHER):
            assert "nknown tool" in text_of(client.call(name, amount=1))
        told = "plugins.presentation.toolsets.none.tools: 'bank:no_such_tool' fits no tool"
        ends = time.monotonic() + PATIENCE_S
        while told not in site.log.read_text() and time.monotonic() < ends:
            time.sleep(0.05)
    assert told in site.log.read_text()
    assert site.payments() == ""


def test_toolsets_that_are_changed_in_the_file_count_at_once(site):
    """Nobody is told of a tool that is not listed any more but by the list: it cannot be called from then on."""

    def sets(*tools):
        chosen = json.dumps(tools or ["bank:no_such_tool"])
        return f'[toolsets.t]\ntools = {chosen}\n[plugins.presentation.endpoints]\ndefault = ["t"]\n'

    def listed(client):
        return {tool["name"] for tool in client.ask("tools/list")["result"]["tools"] if "bank" in tool["name"]}

    def until(client, wanted):
        ends = time.monotonic() + PATIENCE_S
        while (found := listed(client)) != wanted and time.monotonic() < ends:
            time.sleep(0.05)
        assert found == wanted

    with site.serving(sets("bank:pay")) as client:
        config = site.folder / "site.toml"
        assert listed(client) == {ONE}
        assert not client.call(ONE, amount=1)["result"].get("isError")
        config.write_text(config.read_text().replace('["bank:pay"]', '["bank:no_such_tool"]'))
        until(client, set())
        for name in (ONE, OTHER):
            assert "nknown tool" in text_of(client.call(name, amount=2))
        config.write_text(config.read_text().replace('["bank:no_such_tool"]', '["bank:*"]'))
        until(client, EVERY)
        assert not client.call(ONE, amount=3)["result"].get("isError")
        ends = time.monotonic() + PATIENCE_S
        changes = "notifications/tools/list_changed"
        while [message["method"] for message in client.heard].count(changes) < 2:
            assert time.monotonic() < ends
            client.ask("ping")
    paid = [json.loads(line)["params"]["arguments"] for line in site.payments().splitlines()]
    assert paid == [{"amount": 1}, {"amount": 3}]


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ('[tools."bank:pay"]\nname = "call_tool"\n', "is to be called 'call_tool', as the gateway's own tool"),
        (
            '[tools."bank:pay"]\nname = "x"\n[tools."bank:ask"]\nname = "x"\n',
            "'bank:pay' and 'bank:ask' would both be called 'x'",
        ),
        ('[tools."bank:*"]\nhidden = true\n', "'bank:*' is a pattern"),
        ('[tool."bank:pay"]\nhidden = true\n', "site.toml): unknown key"),
    ],
)
def test_mistakes_keep_a_gateway_from_starting(site, table, told):
    with pytest.raises(AssertionError, match="the gateway has ended"), site.serving(table) as client:
        client.ask("ping")
    log = site.log.read_text()
    assert told in log
    assert "Traceback" not in log


def test_commands_show_it(site):
    text = PAY + '[toolsets.r]\ntags = ["reading"]\n[tools."bank:ask"]\ntags = ["reading"]\n'
    text += '[plugins.presentation]\nendpoints = { default = ["r"] }\n'
    (site.folder / "pml.toml").write_text(text, encoding="utf-8")

    def pml(*words):
        command = [sys.executable, "-m", "pml_core", *words, "--config", "pml.toml"]
        env = {**os.environ, "PML_HOME": str(site.folder / "home")}
        done = subprocess.run(command, cwd=site.folder, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    check = Draft202012Validator(json.loads(pml("config", "schema")))
    check.validate(tomllib.loads("[gateway]\n" + text))
    for wrong in ('[tools."bank:pay"]\nnames = "x"', "[toolsets.r]\ntools = 1", '[tool."bank:pay"]\nhidden = true'):
        assert not check.is_valid(tomllib.loads(wrong))
    explained = pml("config", "explain", "tools")
    assert "plugins.presentation.tools" in explained
    assert "'settle'" in explained
    assert "pml.toml" in explained
    assert "'reading'" in pml("config", "explain", "toolsets")
    rows = [line.split()[:3] for line in pml("plugins", "chain").splitlines()]
    assert ["AUDIT", "presentation", "FixedArguments"] in rows
    assert ["AUTHORIZE", "presentation", "ToolsetFilter"] in rows
