"""What the pages about kinds of plugins show runs in a gateway, and keeps the contract of its kind."""

from __future__ import annotations

import re
import types

import pytest

from pml_hookspecs import CodeRun, Identity, TransportError
from pml_testing.executor import ContractRun, ExecutorContract
from pml_testing.exposure_mode import ExposureModeContract
from pml_testing.gateway import ScriptedServer
from pml_testing.wrapper import WrapperContract

BLOCK = re.compile(r"<!-- runs -->\n+```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def shown(root, page):
    """What the example on a page defines."""
    (text,) = BLOCK.findall((root / "docs" / "plugins" / f"{page}.md").read_text(encoding="utf-8"))
    module = types.ModuleType(f"shown_{page.replace('-', '_')}")
    exec(compile(text, page, "exec"), vars(module))
    return module


@pytest.mark.anyio
async def test_the_exposure_mode(root, gateway):
    mode = shown(root, "exposure-mode").FirstTen
    servers = {"many": [f"tool_{n:02}" for n in range(12)]}
    async with gateway([("exposure_mode", "first_ten", mode)], servers) as client:
        assert await client.tools() == [f"many__tool_{n:02}" for n in range(10)]


@pytest.mark.anyio
async def test_the_executor(root, gateway):
    lines = shown(root, "executor").Lines
    server = ScriptedServer(["one", "two"])
    async with gateway([("executor", "lines", lines), "search_tools"], {"s": server}) as client:
        services = client.gateway.assembly.services("search_tools")
        session = services.session(Identity(principal="local"))
        good = await services.run(CodeRun(id="a", language="lines", source="s:one\ns:two"), session)
        bad = await services.run(CodeRun(id="b", language="lines", source="s:one\nnone:three\ns:two"), session)
    assert [name for name, _ in server.calls] == ["one", "two", "one"]
    assert (good.status, len(good.output)) == ("ok", 2)
    assert (bad.status, bad.failure.code) == ("error", "tool.not_connected")


@pytest.mark.anyio
async def test_the_tracer(root, gateway):
    tracer = shown(root, "tracer").Totals()
    async with gateway([("tracer", "totals", tracer)]) as client:
        await client.call("files__read_file", {"path": "a"})
        await client.call("files__read_file", {"path": "b"})
    assert {tool: n for (tool, status), n in tracer.seen.items() if status == "ok"} == {"files:read_file": 2}


@pytest.mark.anyio
async def test_the_wrapper(root, gateway):
    server = ScriptedServer()
    server.script.append(TransportError("the connection was lost", retryable=True))
    async with gateway([("hooks", "again", shown(root, "wrapper"))], {"files": server}) as client:
        answer = await client.call("files__read_file", {"path": "a"})
    assert answer["structuredContent"] == {"path": "a"}
    assert len(server.calls) == 2


class TestMode(ExposureModeContract):
    @pytest.fixture
    def mode_type(self, root):
        return shown(root, "exposure-mode").FirstTen

    @pytest.fixture
    def settings(self):
        return None

    # It has no settings, and cannot be imported by name.
    test_settings_are_a_frozen_dataclass = None
    test_every_setting_has_a_default_and_a_description = None
    test_settings_survive_a_round_trip = None
    test_another_process_with_another_hash_seed_gives_the_same_answer = None


class TestWrapper(WrapperContract):
    @pytest.fixture
    def wrapper(self, root):
        return shown(root, "wrapper").Again()


class TestExecutor(ExecutorContract):
    @pytest.fixture
    def executor(self, root):
        return shown(root, "executor").Lines()

    @pytest.fixture
    def run(self):
        return ContractRun()

    @pytest.fixture
    def good_task(self):
        return CodeRun(id="good", language="lines", source="contract:good")

    @pytest.fixture
    def endless_task(self):
        return CodeRun(id="endless", language="lines", source="contract:good\ncontract:never_ends")

    @pytest.fixture
    def timing_out_task(self):
        return CodeRun(id="late", language="lines", source="contract:times_out")
