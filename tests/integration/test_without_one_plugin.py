"""Any one plugin can be uninstalled: the gateway starts, says what is missing, and does the rest."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from pml_core.gateway import Gateway
from pml_core.plugins.registry import Record, State, discover
from pml_hookspecs import Session, replace
from pml_kit.system.logs import Logs
from pml_settings.config import load
from pml_testing.gateway import Client, value_of

pytestmark = pytest.mark.anyio
SERVER = Path(__file__).with_name("notes_server.py")
FOUND = [record for record in discover() if not record.dist.startswith("pml-broken-")]
DISTRIBUTIONS = sorted({record.dist for record in FOUND})
MISSED = {
    "pml-transport-stdio": "no transport driver named 'stdio'",
    "pml-store-sqlite": "there is no store; the last executions are kept in memory",
}
"""What the gateway has to say where something is gone that it takes by default, or that its servers need. Without a
tracer, or the default exposure mode, which the core stands in for, nobody misses anything."""


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("PML_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    server = f'{{command="{sys.executable}", args=["{SERVER}", "{tmp_path / "notes.txt"}"]}}'
    return [f"servers.notes={server}", "gateway.log_format=json"]


class Visit:
    """What a client gets, and what the operator is told."""

    def __init__(self) -> None:
        self.listed: list[str] = []
        self.result: dict[str, Any] = {}
        self.server = ""
        self.plugins: dict[str, str] = {}


async def visit(overrides: list[str], records: list[Record] | None = None) -> Visit:
    found = Visit()
    async with Gateway(load(overrides=overrides), Logs("info", "json"), records, one_client=True) as gateway:
        await gateway.servers_tried()
        client = Client(gateway)
        await client.initialize()
        found.listed = await client.tools()
        found.result = await client.call("notes__add", {"text": "hello"})
        status = gateway.status(Session(key="test"))
        found.server, found.plugins = status["servers"][0]["reason"], status["plugins"]
    return found


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
async def test_a_gateway_without_one_distribution_starts_says_so_and_does_the_rest(
    configured: list[str], distribution: str, capfd: pytest.CaptureFixture[str]
) -> None:
    # Each as it was found: a record also tells how far its plugin got.
    records = [replace(record) for record in FOUND if record.dist != distribution]
    found = await visit(configured, records)
    said = f"{capfd.readouterr().err} {found.server}"
    assert "quarantined" not in said
    assert {name for name, text in MISSED.items() if text in said} == MISSED.keys() & {distribution}
    if distribution == "pml-transport-stdio":
        assert found.result["isError"]
        assert "Install pml-transport-stdio." in found.server
    else:
        assert value_of(found.result) == {"lines": ["hello"], "last": "hello"}, found.result
    assert found.listed


@pytest.mark.parametrize("distribution", MISSED)
async def test_one_that_is_blocked_is_done_without_as_if_it_were_not_there(
    configured: list[str], distribution: str, capfd: pytest.CaptureFixture[str]
) -> None:
    found = await visit([*configured, f'gateway.block=["{distribution}"]'])
    said = f"{capfd.readouterr().err} {found.server}"
    assert "quarantined" not in said
    blocked = {record.name for record in FOUND if record.dist == distribution}
    assert {found.plugins[name] for name in blocked} == {State.BLOCKED}
    assert bool(found.server) == (distribution == "pml-transport-stdio")
    assert found.server == "" or "blocked by [gateway] block" in found.server


async def test_all_together_nothing_is_missing(configured: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    found = await visit(configured)
    said = capfd.readouterr().err
    assert "quarantined" not in said
    assert not [text for text in MISSED.values() if text in said]
    assert value_of(found.result)["last"] == "hello"
