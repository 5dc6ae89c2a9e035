"""Commands that plugins add, with the services that they need."""

from __future__ import annotations

import asyncio
import json
import types
from datetime import UTC, datetime

import pytest

from pml_catalog.live import make_entry
from pml_core.cli import main
from pml_core.cli.with_services import prepare
from pml_core.gateway import Gateway
from pml_core.plugins import registry
from pml_core.plugins.nulls import MemoryStore
from pml_hookspecs import InvalidArguments, Session, ToolCall, hookimpl
from pml_settings.config import load

STARTED = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def plugin(monkeypatch):
    """A plugin with ``pml look`` and ``pml deep look``; what it was given is in ``seen``."""
    module = types.ModuleType("looking")
    module.seen = []

    async def look(arguments, services):
        module.seen.append((arguments, services.plugin, sorted(e.id for e in services.catalog)))
        if arguments.fail:
            raise InvalidArguments("look: there is nothing to see; look elsewhere.")
        return 3

    @hookimpl
    def pml_commands(subcommands):
        one = subcommands.add_parser("look")
        one.add_argument("--fail", action="store_true")
        one.set_defaults(run_with=look)
        deep = subcommands.add_parser("deep").add_subparsers(required=True).add_parser("look")
        deep.set_defaults(run_with=look, fail=False)

    module.pml_commands = pml_commands
    records = lambda *_: [registry.provide("pml.plugins", "looking", module)]  # noqa: E731
    monkeypatch.setattr(registry, "discover", records)
    return module


def test_a_command_of_a_plugin_gets_its_services_and_says_how_it_went(place, plugin):
    assert main(["look"]) == 3
    assert [(name, tools) for _, name, tools in plugin.seen] == [("looking", [])]


def test_a_verb_of_a_plugin_does_too_and_both_know_where_settings_come_from(place, plugin):
    assert main(["deep", "look", "--set", "gateway.log_level=error", "--mode", "hybrid"]) == 3
    assert plugin.seen[0][0].mode == "hybrid"


def test_what_a_command_cannot_work_with_is_a_message(place, plugin, capsys):
    assert main(["look", "--fail"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "pml: look: there is nothing to see; look elsewhere."


class Remembering(MemoryStore):
    """A store that knows a tool from last time."""

    def __init__(self, settings, services):
        super().__init__()

    async def __aenter__(self):
        self.catalog.entries = self.known
        return self

    async def known(self, server, _fingerprint):
        return [make_entry(server, {"name": "read"})]


@pytest.mark.anyio
async def test_without_connect_no_server_is_started_and_the_tools_are_those_of_last_time(place):
    mark = place.home / "started"
    servers = {"fs": {"command": "touch", "args": [str(mark)]}}
    file = place.write("servers.json", json.dumps({"mcpServers": servers}))
    records = [registry.provide("pml.store", "remembering", Remembering)]
    async with Gateway(load(file, overrides=["gateway.store=remembering"]), records=records, connect=False) as made:
        assert [entry.id for entry in made.catalog] == ["fs:read"]
    assert not mark.exists()


@pytest.mark.anyio
async def test_without_connect_a_call_fails_at_once_and_names_the_option(place):
    file = place.write("servers.json", json.dumps({"mcpServers": {"fs": {"command": "touch"}}}))
    records = [registry.provide("pml.store", "remembering", Remembering)]
    async with (
        Gateway(load(file, overrides=["gateway.store=remembering"]), records=records, connect=False) as made,
        asyncio.timeout(30),
    ):
        ended = await made.dispatcher.start(ToolCall(id="t", tool="fs:read"), Session(key="k"))
    assert ended.failure.code == "tool.not_connected"
    assert ended.failure.message == "MCP server fs not connected: this command starts no servers; give it --connect"


def test_a_command_may_connect_unless_it_is_told_not_to():
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--no-connect", dest="connect", action="store_false")
    parser.set_defaults(run_with=len, connect=True)
    prepare(parser, "any")
    told = {words: parser.parse_args(words).connect for words in ((), ("--connect",), ("--no-connect",))}
    assert told == {(): True, ("--connect",): True, ("--no-connect",): False}


def test_a_command_that_brings_its_own_function_is_left_alone():
    import argparse

    parser = argparse.ArgumentParser()
    parser.set_defaults(run=len)
    prepare(parser, "any")
    assert parser.get_default("run") is len


def test_a_command_on_trial_gets_a_gateway_that_keeps_nothing_of_the_users(place, plugin, capsys):
    seen = []

    async def attempt(arguments, services, trial):
        from pml_hookspecs import MetaTool, Outcome, Status

        services.publish("mine", [MetaTool(definition={"name": "echo", "inputSchema": {}}, call=None)])
        ended = Outcome(task_id="t", status=Status.OK, started_at=STARTED, duration_ms=1)

        async def last(task, run):
            seen.append(task.tool)
            return ended

        chain = trial.use([], [], last)
        outcome = await services.run(ToolCall(id="t", tool="mine:echo"), Session(key="k"))
        seen.append((outcome, await chain(ToolCall(id="t", tool="other:echo"), None)))
        seen.append([one["name"] for one in trial.plugins])
        seen.append([name for name, _ in trial.hooks["pml_wrap_executor"]])
        seen.append(list(trial.tracers))
        with pytest.raises(Exception, match="no tracer driver named 'gone'"):
            await trial.driver("tracer", "gone")
        raise InvalidArguments("enough\nGo home.")

    @hookimpl
    def pml_commands(subcommands):
        subcommands.add_parser("try").set_defaults(run_on_trial=attempt)

    plugin.pml_commands = pml_commands
    place.write("servers.json", json.dumps({"mcpServers": {"fs": {"command": "touch", "args": ["started"]}}}))
    assert main(["try", "--config", "servers.json", "--set", "gateway.tracers=['late']"]) == 2
    assert capsys.readouterr().err.splitlines()[-2:] == ["pml: enough", "     Go home."]
    assert seen[:2] == ["mine:echo", "other:echo"]
    assert [outcome.started_at for outcome in seen[2]] == [STARTED, STARTED]
    assert seen[3:] == [["looking"], ["core"], ["late"]]
    assert list(place.home.iterdir()) == []
