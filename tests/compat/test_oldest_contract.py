"""A plugin that was built for the oldest contract which is still supported works in the gateway of today.

``pml-plugin-0-1`` is that plugin. It is installed as a user's would be, into a folder of its own, because it would take
effect in everybody's tests otherwise.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from pml_core.plugins.hooks import HookManager
from pml_core.plugins.registry import State, discover

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PLUGIN = HERE / "pml-plugin-0-1"
FROZEN = "0dccac7b1be9e5fa13856ada77032177dd7f22951bb5a178ea48f0e0503a32d5"
"""Of the plugin's files. It never changes: what makes the plugin fail is what is wrong."""
OLDEST = ROOT / "hookspecs" / "released" / "api-0.1.0.txt"
NAME, DIST, MODULE = "plugin_0_1", "pml-plugin-0-1", "pml_plugin_0_1"
LIMIT_S = 120.0


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the plugin is installed, and nothing else."""
    import uv

    folder = tmp_path_factory.mktemp("site")
    # The environment has the builder; everything else that the plugin needs is what is tested here.
    words = ["pip", "install", "--quiet", "--no-cache", "--no-deps", "--no-build-isolation", "--python", sys.executable]
    command = [uv.find_uv_bin(), *words, "--target", str(folder), str(PLUGIN)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == MODULE]:
        del sys.modules[name]


@pytest.fixture
def installed(site, monkeypatch):
    """The plugin can be found and imported by this process, which has never imported it."""
    monkeypatch.syspath_prepend(str(site))
    forget()
    yield
    forget()


@pytest.fixture
def pml(site, tmp_path):
    """``pml`` where the plugin is installed."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
        return subprocess.run(
            [sys.executable, "-m", "pml_core", *words],
            capture_output=True,
            check=False,
            cwd=tmp_path,
            encoding="utf-8",
            env={**kept, "PYTHONPATH": str(site), "PML_HOME": str(tmp_path / "home")},
            timeout=LIMIT_S,
        )

    return run


def fired() -> set[str]:
    import pml_plugin_0_1

    return set(pml_plugin_0_1.FIRED)


def test_its_files_are_as_they_were():
    digest = hashlib.sha256()
    for path in sorted(path for path in PLUGIN.rglob("*") if path.suffix in (".md", ".py", ".toml")):
        digest.update(f"{path.relative_to(PLUGIN).as_posix()}\0".encode())
        digest.update(path.read_bytes().replace(b"\r\n", b"\n"))
    assert digest.hexdigest() == FROZEN, "the plugin of the oldest contract was edited; put it back as it was"


def test_its_range_is_met_by_the_contract_of_today(installed):
    records = [record for record in discover(thorough=True) if record.dist == DIST]
    assert [(record.kind, record.name) for record in records] == [
        ("exposure_mode", NAME),
        ("hooks", NAME),
        ("tracer", NAME),
    ]
    for record in records:
        assert (record.state, record.problem) == (State.FOUND, "")
        assert record.requires_api == "<1,>=0.1"


def test_it_has_every_hook_of_its_contract_and_each_is_a_hook_still(installed):
    manager = HookManager()
    (record,) = (one for one in discover() if one.dist == DIST and one.kind == "hooks")
    manager.load([record])
    assert record.state is State.LOADED, record.problem
    lines = OLDEST.read_text(encoding="utf-8").splitlines()
    hooks = {line.split(" ")[0].rpartition(".")[2] for line in lines if " @hookspec" in line}
    assert len(hooks) > 10
    assert manager.hooks_of(NAME) == hooks


@pytest.mark.anyio
async def test_it_lists_filters_wraps_and_serves_in_the_gateway_of_today(installed, gateway):
    table = {NAME: {"hidden": ["files:delete_file"], "token": "s3cret-enough-to-hide"}}
    tools = ["delete_file", "read_file", "write_file"]
    async with gateway([NAME], {"files": tools}, settings=table) as client:
        listed = await client.tools()
        assert listed[0] == "files__write_file"
        assert sorted(listed[1:]) == ["files__read_file", "plugin_0_1_echo"]

        assert not (await client.call("files__read_file", {"path": "a"})).get("isError")
        refused = await client.call("files__read_file", {"path": "forbidden"})
        assert refused["isError"]
        assert "plugin_0_1.refused" in json.dumps(refused)

        said = (await client.call("plugin_0_1_echo", {"text": "read s3cret-enough-to-hide"}))["structuredContent"]
        assert "s3cret" not in said["text"]
        assert said["found"] == ["files__read_file"]
        assert said["plans"] == ["it is the only one"]
        assert said["vectors"] == [[1.0, 0.0, 0.0]]
        assert said["modes"] == [NAME]
        assert (await client.call("plugin_0_1_echo"))["isError"]
        assert not (await client.call("plugin_0_1_relay", {"tool": "files:read_file"})).get("isError")
        assert "left" not in fired()
    assert fired() >= {"background", "build", "entered", "filter", "flush", "left", "passage", "refusal", "search"}
    assert fired() >= {"embed", "scope", "suggest"}
    assert any(one.startswith("started ") for one in fired())
    assert any(one.startswith("ended ") and one.endswith(" denied") for one in fired())


class Listener:
    """A transport that is over as soon as it serves."""

    def __init__(self, settings, services):
        """Needs nothing."""

    def connect(self, endpoint, handler):
        raise NotImplementedError

    async def serve(self, endpoint, accept, *, started, routes=None):
        started(endpoint.address)


@pytest.mark.anyio
async def test_it_is_asked_for_routes_and_about_keys(installed, gateway):
    async with gateway([NAME, ("transport", "listener", Listener)]) as client:
        await client.gateway.serve("listener:here")
        assert await client.gateway.identities.identify("a token") is None
    assert fired() >= {"api routes", "identify", "routes"}


def test_its_command_its_check_and_its_settings_work(pml):
    done = pml("plugin-0-1", "--set", "plugins.plugin_0_1.first=read_file")
    assert (done.returncode, done.stdout) == (0, "plugin_0_1: 0 lives, first read_file\n"), done.stderr
    done = pml("plugins", "doctor", "--json")
    lines = [one for one in json.loads(done.stdout) if NAME in one["subject"]]
    assert len(lines) == 4, done.stdout
    assert [one for one in lines if not one["ok"]] == []
    done = pml("config", "explain", "plugins.plugin_0_1.most")
    assert "Most tools listed." in done.stdout, done.stderr
    done = pml("plugin-0-1", "--set", "plugins.plugin_0_1.most=1001")
    assert done.returncode == 2
    assert "plugins.plugin_0_1.most (--set): Input should be less than or equal to 1000" in done.stderr


def test_it_is_left_out_by_a_contract_that_it_does_not_know(installed, monkeypatch):
    """What the range is for: the next major version."""
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "1.0.0" if name == "pml-hookspecs" else real(name))
    found = {(one.state, one.problem) for one in discover(thorough=True) if one.dist == DIST}
    assert found == {(State.INCOMPATIBLE, "needs pml-hookspecs<1,>=0.1, found 1.0.0")}
