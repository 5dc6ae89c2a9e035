"""What a command tells while it waits for servers, and that it waits for all of them at once."""

from __future__ import annotations

import argparse
import asyncio

import pytest

from pml_admin.doctor import examine
from pml_core.cli.installation import ConfiguredInstallation
from pml_core.plugins.registry import provide
from pml_hookspecs import ServerStatus
from pml_kit.command_line import start_progress
from pml_settings.config import Config, GatewaySettings, ServerSettings
from pml_testing.gateway import ScriptedServer, ScriptedTransport

pytestmark = pytest.mark.anyio


def test_what_is_said_counts_those_that_could_be_up():
    states = ["up"] * 10 + ["idle"] + ["starting"] * 5 + ["down"] * 9 + ["disabled"]
    statuses = [ServerStatus(name=f"s{n}", state=state) for n, state in enumerate(states)]
    waiting = [status.name for status in statuses if status.state == "starting"]
    assert start_progress.said(statuses, waiting) == "11 of 25 servers up, waiting for s11, s12, s13 and 2 more"


async def test_where_no_terminal_is_a_line_is_written_from_time_to_time(capsys, monkeypatch):
    monkeypatch.setattr(start_progress, "LINE_S", 0.0)
    looks = iter(["starting"] * 6)
    await start_progress.until_started(lambda: [ServerStatus(name="slow", state=next(looks, "up"))])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "pml: 0 of 1 servers up, waiting for slow" in captured.err


async def test_the_doctor_asks_servers_side_by_side_and_gives_each_its_own_time(monkeypatch):
    under_way, most = set(), 0

    class Dead(ScriptedServer):
        async def serve(self, method, params):
            nonlocal most
            under_way.add(self)
            most = max(most, len(under_way))
            try:
                await asyncio.Event().wait()
            finally:
                under_way.discard(self)

    scripted = {"a": Dead([]), "b": Dead([]), "good": ScriptedServer(["read"]), "lazy": ScriptedServer(["x"])}
    servers = {name: ServerSettings(address=f"scripted:{name}", start_timeout_s=0.2) for name in ("a", "b")}
    servers["good"] = ServerSettings(address="scripted:good")
    servers["lazy"] = ServerSettings(address="scripted:lazy", start="lazy")
    records = [provide("pml.transport", "scripted", ScriptedTransport(scripted))]
    monkeypatch.setattr("pml_core.plugins.local_plugins.found", lambda config, **_how: records)
    installation = ConfiguredInstallation(argparse.Namespace())
    vars(installation)["config"] = Config(GatewaySettings(start_timeout_s=600.0), servers, {}, ())
    seen = []

    async def watch(statuses):
        seen.append({status.name for status in statuses()})

    lines = {line.subject: line for line in await examine(installation, connect=True, watch=watch)}
    assert most == 2
    assert (lines["server good"].detail, lines["server lazy"].detail) == ("up, 1 tools", "up, 1 tools")
    assert "did not answer within 0.2 s" in lines["server a"].detail
    assert seen == [{"a", "b", "good", "lazy"}]
