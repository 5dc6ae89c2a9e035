"""Names and patterns of tools that fit nothing are named, with the nearest; what cannot be known is not judged."""

from __future__ import annotations

import json
import types

import pytest

from pml_catalog.exposure.tool_rules import ToolRules, named_by_servers
from pml_catalog.named_tools import unmatched
from pml_hookspecs import Offer, hookimpl
from pml_kit.offers import TOOL_NAMES, NamedTools
from pml_kit.offers.tool_names import is_said
from pml_kit.system.logs import Logs
from pml_settings.config import ServerSettings
from pml_testing.fakes import FakeCatalog, entry
from pml_testing.gateway import ScriptedServer, running, until

CATALOG = FakeCatalog([entry(f"crm:{name}") for name in ("delete_ticket", "list_tickets")] + [entry("git:log")])
SERVERS = ("crm", "git", "late")


def problems(*names, ids_only=False, whole=True, catalog=CATALOG):
    found = unmatched([NamedTools("here", names, ids_only=ids_only)], catalog, SERVERS, whole=whole)
    return [line.removeprefix("here: ") for line in found]


@pytest.mark.parametrize(
    "name",
    ["crm:delete_ticket", "crm:*", "crm__list_*", "*:log", "*", "late:anything", "late:any*", "lat?:x", "pml:run_code",
     "crm:@resource/x", "crm__delete_ticket"],
)  # fmt: skip
def test_what_fits_or_may_fit_is_not_named(name):
    assert problems(name) == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("crm:delete_tickets", "fits no tool; did you mean 'crm:delete_ticket'?"),
        ("crm/list_ticket", "fits no tool; did you mean 'crm:list_tickets'?"),
        ("crm:delte_*", "fits no tool; did you mean 'crm:delete_ticket'?"),
        ("cmr:delete_ticket", "names no server that there is; did you mean 'crm:delete_ticket'?"),
        ("gti:@resource/*", "names no server that there is; did you mean 'git'?"),
        ("zzzz", "fits no tool; tools are named server:tool"),
    ],
)
def test_what_fits_nothing_is_named_with_the_nearest(name, said):
    (problem,) = problems(name)
    assert problem.startswith(f"{name!r} {said}")


def test_where_only_ids_count_another_spelling_is_a_mistake():
    assert problems("crm__delete_ticket", ids_only=True) == [
        "'crm__delete_ticket' fits no tool; did you mean 'crm:delete_ticket'?; tools are named server:tool"
    ]


def test_of_servers_that_a_running_gateway_may_have_only_misspelt_ones_are_named():
    assert problems("agents:alpha", whole=False) == []
    assert problems("crn:*", whole=False) == ["'crn:*' names no server that there is; did you mean 'crm'?"]
    assert problems("anything", catalog=FakeCatalog([])) == []


def test_rules_of_servers_are_about_their_own_tools():
    servers = {"crm": ServerSettings(tools=ToolRules(allow=("delete_ticket", "rm_*"), deny=("list_*",)))}
    (line,) = unmatched(named_by_servers(servers), CATALOG, SERVERS, whole=True)
    assert line.startswith("servers.crm.tools.allow: 'crm:rm_*' fits no tool")


def test_what_was_said_of_a_name_is_not_said_again():
    line = "plugins.x: 'crm:a' fits no tool; did you mean 'crm:b'?; tools are named server:tool"
    assert is_said(line, ["plugins.x: 'crm:a': no server 'crm' is configured"])
    assert not is_said(line, ["plugins.y: 'crm:a': no server", "plugins.x: 'crm:ab': no server"])


@pytest.mark.anyio
async def test_at_the_start_each_is_logged_and_a_plugin_that_fails_is_noted(capsys):
    good, bad = types.ModuleType("good"), types.ModuleType("bad")

    async def listed():
        return [NamedTools("good.list", ["crm/liar"])]

    async def later():
        return [NamedTools("key k1: allow", ["crm:delete_tickets"])]

    async def broken():
        raise ValueError("no store")

    good.pml_offers = hookimpl(lambda services: [Offer(TOOL_NAMES, listed), Offer(TOOL_NAMES, later)])
    bad.pml_offers = hookimpl(lambda services: [Offer(TOOL_NAMES, broken)])
    plugins = {("hooks", "good"): good, ("hooks", "bad"): bad}
    server = {"crm": ScriptedServer(["delete_ticket"])}
    async with running(server, plugins=plugins, logs=Logs("warning", "json")) as made:
        await until(made.announcement.made.is_set)
        assert "no store" in made.supervisor.health["bad"]
    events = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    assert any(event.startswith("good.list: 'crm/liar' fits no tool") for event in events)
    assert any(
        "key k1: allow: 'crm:delete_tickets' fits no tool; did you mean 'crm:delete_ticket'?" in e for e in events
    )
