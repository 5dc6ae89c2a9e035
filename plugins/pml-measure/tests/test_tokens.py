from __future__ import annotations

from typing import Any

import pytest

from pml_hookspecs import InvalidArguments, ServerStatus
from pml_kit.offers import View
from pml_measure import tokens
from pml_measure.counting import estimate
from pml_measure.modes import CONFIGURED, arranged
from pml_measure.presets import Preset
from pml_testing.fakes import FakeCatalog, FakeServices, entry

pytestmark = pytest.mark.anyio


async def test_every_mode_preset_server_and_tool_has_its_cost(services: Any, arguments: Any, printed: Any) -> None:
    assert await tokens.run(arguments(), services) == 0
    said = printed()
    modes = {mode["name"]: mode for mode in said["modes"]}
    assert list(modes) == [CONFIGURED, "small", "balanced", "everything"]
    assert [modes[name]["tools"] for name in modes] == [2, 2, 2, 4]
    assert modes["everything"]["tokens"] == said["catalog"]["tokens"]
    assert modes["small"]["with_a_hint"] is None
    assert modes["balanced"]["with_a_hint"]["tools_mean"] > 2
    assert modes["balanced"]["with_a_hint"]["tokens_most"] <= modes[CONFIGURED]["with_a_hint"]["tokens_most"]
    assert [server["server"] for server in said["servers"]] == ["mail", "files"]
    assert sum(server["tokens"] for server in said["servers"]) == said["catalog"]["tokens"]
    assert said["tools"][0]["tool"] == "mail:list_messages"
    assert said["tokenizer"] == {"name": "estimate", "exact": False, "error": 0.031}
    assert services.log.lines == []
    assert services.tasks == []


async def test_people_get_tables(services: Any, arguments: Any, capsys: pytest.CaptureFixture[str]) -> None:
    await tokens.run(arguments(json=False, top=1), services)
    out = capsys.readouterr().out
    assert f"{CONFIGURED} (chosen)" in out
    assert "mail:list_messages" in out
    assert "files:read_file" not in out
    assert "4 tools of servers" in out
    assert "estimated" in out


async def test_counted_is_what_models_read(services: Any, arguments: Any, printed: Any) -> None:
    services.catalog = FakeCatalog([entry("a:b", "Does it.", outputSchema={"type": "object"}, title="B")])
    await tokens.run(arguments(), services)
    text = '{"name":"a__b","description":"Does it.","inputSchema":{"type":"object"}}'
    assert printed()["tools"] == [{"tool": "a:b", "tokens": estimate(text)}]


async def test_what_a_filter_drops_is_not_counted(services: Any, arguments: Any, printed: Any) -> None:
    services.catalog.denied.add("mail:list_messages")
    await tokens.run(arguments(), services)
    assert {mode["name"]: mode["tools"] for mode in printed()["modes"]}["everything"] == 3


@pytest.mark.parametrize(
    ("servers", "said"),
    [([], "no servers are configured; pml import"), ([ServerStatus(name="a", state="down")], "with --connect")],
)
async def test_without_tools_it_is_said_what_to_do(services: Any, arguments: Any, servers: Any, said: str) -> None:
    services.catalog = FakeCatalog([], servers)
    with pytest.raises(InvalidArguments, match=said):
        await tokens.run(arguments(), services)


async def test_a_negative_number_of_tools_is_refused(services: Any, arguments: Any) -> None:
    with pytest.raises(InvalidArguments, match="--top -1"):
        await tokens.run(arguments(top=-1), services)


async def test_a_mode_that_is_missing_or_does_not_take_its_settings_is_named(
    services: Any, arguments: Any, views: Any
) -> None:
    views.shown = [View("default", "gone")]
    with pytest.raises(InvalidArguments, match=r"'gone' \(as configured\) cannot be tried: .*pml plugins doctor"):
        await tokens.run(arguments(), services)
    views.shown = [View("default", "chosen")]
    views.configured = {"nonsense": 1}
    with pytest.raises(InvalidArguments, match=r"'chosen' \(as configured\) cannot be tried"):
        await tokens.run(arguments(), services)


async def test_presets_are_tried_with_their_own_settings_and_each_other_endpoint_has_a_row(
    services: Any, views: Any
) -> None:
    views.shown = [
        View("default", "chosen", "mail"),
        View("same", "chosen", "mail"),
        View("ops", "everything"),
        View("desk", "chosen", "files"),
    ]
    tables = {"chosen": {"most": 3}, "other": {"most": 4}}
    known = [Preset("p", "chosen", tables), Preset("as is", "", tables), Preset("not installed", "x")]
    made = arranged(services, known)
    assert [(v.name, v.mode, v.intent, v.settings) for v in made] == [
        (CONFIGURED, "chosen", "mail", {}),
        ("endpoint ops", "everything", "", {}),
        ("endpoint desk", "chosen", "files", {}),
        ("p", "chosen", "", {"most": 3}),
        ("as is", "chosen", "", {"most": 3}),
        ("everything", "everything", "", {}),
        ("meta", "meta", "", {}),
    ]


def test_importing_the_plugin_is_enough_for_its_commands() -> None:
    import argparse
    from importlib.util import find_spec

    from pml_measure import plugin

    parser = argparse.ArgumentParser()
    plugin.pml_commands(parser.add_subparsers())
    for command in ("tokens", "advise", "eval", "metrics"):
        given = parser.parse_args([command, "--json"])
        assert given.json
        assert find_spec(f"pml_measure.{given.run_with.args[0]}") is not None
    assert FakeServices is not None
