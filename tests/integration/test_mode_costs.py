"""What each mode puts into a client's context, on a catalog as large as the original's example."""

from __future__ import annotations

import asyncio
import json
import re
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace

import pytest

from pml_clients.configuration.preset_files import offered
from pml_demo.story import tokens_of
from pml_kit.mcp.tokens import estimate, text_of_tool
from pml_measure.counting import counter
from pml_measure.modes import Sizes
from pml_testing.catalogs import SIZE, large_catalog
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio
META_TOOLS = 3
INTENT = "create a calendar event and invite an attendee"
CONTEXT = 100_000
"""Tokens of the context that the original's percentages are of."""
PRESETS = {name: table["values"] for name, table in offered("presets").items()}
KINDS = {"pml.exposure_mode": "exposure_mode", "pml.executor": "executor", "pml.plugins": "hooks"}
LEFT_OUT = ("demo", "measure")


def plugins():
    found = [point for group in KINDS for point in entry_points(group=group) if point.name not in LEFT_OUT]
    guards = {point.name for point in entry_points(group="pml.guards")}
    kinds = [KINDS[point.group] for point in found]
    named = [
        "guards" if kind == "hooks" and point.name in guards else kind for kind, point in zip(kinds, found, strict=True)
    ]
    return {(kind, point.name): point.load() for kind, point in zip(named, found, strict=True)}


async def costs(mode, intent="", **hybrid):
    """Tools listed, and their tokens, as clients receive them."""
    servers = {name: ScriptedServer(tools) for name, tools in large_catalog().items()}
    async with running(servers, plugins=plugins(), tables={"hybrid": hybrid}, tools_exposure=mode) as gateway:
        meta = {"_meta": {"pml/intent": intent}} if intent else {}
        tools = (await Client(gateway).request("tools/list", meta))["tools"]
    return len(tools), sum(estimate(json.dumps(tool, ensure_ascii=False, separators=(",", ":"))) for tool in tools)


async def preset(name, intent=""):
    said = PRESETS[name]
    return await costs(said["tools_exposure"], intent, **said.get("hybrid", {}))


async def test_the_list_the_log_the_demo_and_the_readme_count_alike(capfd):
    servers = {name: ScriptedServer(tools) for name, tools in large_catalog().items()}
    async with running(servers, plugins=plugins(), tools_exposure="full_proxy", log_level="warning") as gateway:
        listed = (await Client(gateway).request("tools/list"))["tools"]
        counted = sum(estimate(text_of_tool(tool)) for tool in listed)
        theirs = [entry for entry in gateway.catalog if not entry.own]
        sizes = Sizes(SimpleNamespace(catalog=gateway.catalog), counter("estimate"))
        assert sizes.all(theirs) == counted
        async with asyncio.timeout(300):
            log = ""
            while "full_proxy puts" not in log:
                await asyncio.sleep(0.05)
                log += capfd.readouterr().err
    assert tokens_of(listed) == counted
    assert f"tokens={counted}" in re.sub(r"\x1b\[[0-9;]*m", "", log)
    readme = Path(__file__).parents[2].joinpath("README.md").read_text(encoding="utf-8")
    assert f"{SIZE} tools are some {round(counted, -3):,} tokens" in readme


@pytest.mark.parametrize("intent", ["", INTENT])
async def test_meta_only_costs_its_three_tools(intent):
    tools, tokens = await preset("meta_only", intent)
    assert tools == META_TOOLS
    assert tokens <= 400


async def test_semantic_stays_within_its_cap():
    assert await costs("semantic") == await preset("meta_only")
    tools, tokens = await costs("semantic", INTENT, max_underlying_tools=30)
    assert META_TOOLS < tools <= META_TOOLS + 30
    assert tokens <= 5_000


async def test_semantic_lists_50_at_most_by_default():
    tools, _ = await costs("semantic", INTENT, semantic_threshold=0.0)
    assert tools == META_TOOLS + 50


async def test_hybrid_balanced_stays_within_its_target():
    tools, tokens = await preset("hybrid_balanced", INTENT)
    assert META_TOOLS <= tools <= META_TOOLS + 20
    assert tokens <= 5_000


async def test_hybrid_permissive_stays_within_its_target():
    tools, tokens = await preset("hybrid_permissive", INTENT)
    assert META_TOOLS < tools <= META_TOOLS + 50
    assert tokens <= 10_000


async def test_full_proxy_costs_everything():
    tools, tokens = await preset("full_proxy")
    assert tools == SIZE
    assert tokens == pytest.approx(44_500, rel=0.05)
    assert 0.3 <= tokens / CONTEXT <= 0.5


async def test_each_phase_of_the_migration_costs_what_was_promised():
    _, first = await preset("full_proxy")
    _, second = await preset("hybrid_permissive", INTENT)
    _, third = await preset("hybrid_balanced", INTENT)
    _, fourth = await preset("meta_only", INTENT)
    assert second <= first / 2
    assert third / CONTEXT < 0.10
    assert fourth / CONTEXT < 0.05
    assert first > second >= third >= fourth
