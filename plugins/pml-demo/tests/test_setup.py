"""What is installed and configured, and what is left out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from pml_demo import environments, setup
from pml_demo.materials import Materials
from pml_demo.problem import DemoError
from pml_demo.progress import Steps
from pml_demo.setup import DemoSetup

pytestmark = pytest.mark.anyio


@pytest.fixture
def machine(monkeypatch):
    """A machine on which the environments named in ``failing`` cannot be installed and ``missing`` is not on PATH."""

    class Machine:
        failing: tuple[str, ...] = ()
        missing: tuple[str, ...] = ()

    async def install(environment):
        if environment.runtime in Machine.failing:
            raise DemoError(f"{environment.runtime} cannot be had\n  because of this and that")
        return Path("/environments") / environment.folder

    def which(name):
        return None if name in Machine.missing else f"/usr/bin/{name}"

    monkeypatch.setattr(environments, "install", install)
    monkeypatch.setattr(environments, "installed", lambda _: None)
    monkeypatch.setattr(environments, "node_version", _twenty)
    monkeypatch.setattr(setup, "make_repository", _nothing)
    monkeypatch.setattr(shutil, "which", which)
    return Machine


async def _twenty():
    return 20


async def _nothing(materials):
    materials.repository.mkdir()


async def set_up(tmp_path, *, node=True):
    materials = Materials(tmp_path)
    done = DemoSetup(materials, Steps(Console(quiet=True), live=False), node=node)
    await done.run()
    return done, list(json.loads(materials.config.read_text())["mcpServers"])


async def test_with_everything_there_all_servers_are_configured(tmp_path, machine):
    done, configured = await set_up(tmp_path)
    assert configured == ["time", "git", "sqlite", "filesystem", "memory", "everything"]
    assert [server.name for server in done.servers] == configured
    assert done.notes == []


async def test_node_that_fails_is_one_line(tmp_path, machine):
    machine.failing = ("node",)
    done, configured = await set_up(tmp_path)
    assert configured == ["time", "git", "sqlite"]
    assert done.notes == ["the servers written for Node are left out: node cannot be had"]


async def test_node_can_be_left_out(tmp_path, machine):
    done, configured = await set_up(tmp_path, node=False)
    assert configured == ["time", "git", "sqlite"]
    assert done.notes == []


async def test_without_git_its_server_is_left_out(tmp_path, machine):
    machine.missing = ("git",)
    done, configured = await set_up(tmp_path, node=False)
    assert configured == ["time", "sqlite"]
    assert done.notes == ["git is not installed, so the git server is left out"]


async def test_python_servers_that_fail_end_the_demo(tmp_path, machine):
    machine.failing = ("python",)
    with pytest.raises(DemoError, match="python cannot be had"):
        await set_up(tmp_path)
