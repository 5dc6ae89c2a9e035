from __future__ import annotations

import sys

import pytest
from agents_kit import chat, client_of, gateway, worker

from pml_agents.checks import checks
from pml_agents.plugin import settings_type
from pml_agents.settings import Agent, Fields, Settings
from pml_kit.errors import OperatorError
from pml_testing.fakes import FakeCatalog, FakeServices, entry

ECHO = ("echo",)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "neither command nor url nor tool"),
        ({"command": ECHO, "url": "http://x"}, "command and url; it needs exactly one"),
        ({"command": ("",)}, "begins with an empty text"),
        ({"url": "ftp://x"}, "http:// or https://"),
        ({"url": "http://me:pin@x/"}, "user name or password"),
        ({"tool": "nothing"}, "<server>:<tool>"),
        ({"tool": "agents:w"}, "never ends"),
        ({"tool": "pml:call_tool"}, "never ends"),
        ({"tool": "a:b", "argument": "x", "arguments": {"x": 1}}, "not among arguments"),
        ({"tool": "a:b", "env": {"A": "b"}}, "env means nothing for a tool"),
        ({"url": "http://x", "cwd": "/"}, "cwd means nothing for a url"),
        ({"command": ECHO, "token": "x"}, "token means nothing for a command"),
        ({"command": ECHO, "inherit": ("A B",)}, "'A B' is no name of a variable"),
        ({"command": ECHO, "timeout_s": 0}, "timeout_s"),
        ({"command": ECHO, "timeout_s": float("nan")}, "timeout_s"),
        ({"command": ECHO, "max_parallel": 0}, "max_parallel is 0"),
        ({"command": ECHO, "max_queue": -1}, "max_queue is -1"),
        ({"url": "http://x", "attempts": 11}, "attempts is 11"),
        ({"command": ECHO, "max_output_bytes": 1}, "max_output_bytes"),
        ({"command": ECHO, "fields": Fields(cost_usd="a b")}, "fields.cost_usd is no JMESPath"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_reason(options, words):
    with pytest.raises(ValueError, match=r".") as told:
        Agent(**options)
    assert words in str(told.value)


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a__b", "-a", "x" * 49])
def test_a_name_has_to_fit_into_a_tools(name):
    with pytest.raises(ValueError, match="an agent's name is"):
        Settings(agents={name: Agent(command=ECHO)})


@pytest.mark.anyio
async def test_a_mistake_in_the_configuration_is_explained_with_its_place():
    with pytest.raises(OperatorError) as told:
        async with gateway({"w": {"command": ["x"], "max_queu": 3}}):
            pass
    assert "plugins.agents.agents.w.max_queu" in str(told.value)
    with pytest.raises(OperatorError) as told:
        async with gateway({"w": {"command": ["x"], "url": "http://x"}}):
            pass
    assert "it needs exactly one of them" in str(told.value)


@pytest.mark.anyio
async def test_secrets_of_agents_are_known_before_anything_is_logged():
    agents = {"w": worker("echo", env={"KEY": "hunter2hunter2"}), "u": {"url": "http://x", "token": "swordfish99"}}
    async with gateway(agents) as (made, client):
        assert made.redactor.text("hunter2hunter2 swordfish99") == "********** **********"
        told, _ = await chat(client, "w", "my key is hunter2hunter2")
        other = await client_of(made)
        assert other is not client
        row = await made.store.executions.get(told["execution_id"], _everyone())
    assert "hunter2hunter2" not in str(row)


def _everyone():
    from pml_hookspecs import Scope

    return Scope(principals=None)


def lines_of(tmp_path, monkeypatch, **agents):
    monkeypatch.setenv("HOME", str(tmp_path))
    schema = {"type": "object", "properties": {"prompt": {"type": "string"}}}
    catalog = FakeCatalog([entry("brain:ask", input_schema=schema)])
    made = {name: Agent(**options) for name, options in agents.items()}
    services = FakeServices("agents", settings=settings_type(agents=made), catalog=catalog)
    return {check.title: check for check in checks(services)}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"command": ("no-such-program",)}, "no program no-such-program"),
        ({"command": ("./no-such-program",)}, "no program ./no-such-program"),
        ({"command": (sys.executable,), "cwd": "/no/such"}, "/no/such is not there"),
        ({"url": "http://far.example/ask", "token": "t"}, "can be read on its way"),
        ({"tool": "mind:ask"}, "no server mind"),
        ({"tool": "brain:think"}, "brain has no tool think; it has ask"),
        ({"tool": "brain:ask"}, "no argument message; it has prompt"),
    ],
)
def test_doctor_says_which_agents_cannot_be_asked(tmp_path, monkeypatch, options, words):
    lines = lines_of(tmp_path, monkeypatch, w=options)
    check = lines["agent w"]
    assert not check.ok
    assert words in check.detail
    assert check.remedy.endswith("in [plugins.agents.agents.w].")


def test_doctor_is_content_with_agents_that_can_be_asked(tmp_path, monkeypatch):
    good = {
        "a": {"command": (sys.executable, "-c", "pass")},
        "b": {"url": "http://localhost:1/ask", "token": "t"},
        "c": {"tool": "brain:ask", "argument": "prompt"},
    }
    lines = lines_of(tmp_path, monkeypatch, **good)
    assert [(check.ok, check.detail.split()[0]) for check in lines.values()] == [(True, "3")]
    assert lines_of(tmp_path, monkeypatch) == {}
