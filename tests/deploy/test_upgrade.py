"""A fleet gets another version, one gateway after the other, while clients call: nothing is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from gateways import Callers, Gateway, haproxy, tell_haproxy

from pml_testing.postgres import Cluster

CONFIG = """
[gateway]
store = "postgres"
tools_exposure = "full_proxy"
durability = "full"
block = ["dbos"]

[plugins.postgres]
url = "{url}"

[plugins.http]
allowed_hosts = ["127.0.0.1:*"]

[servers.things]
command = {{python}}
args = [{{server}}]
"""
"""What both versions understand."""
BETWEEN = 60
BACK = 20
"""Where no version has a tag, so many commits are between the two."""
PARTS = ("pyproject.toml", "LICENSE", "README.md", "hookspecs", "pml_core", "plugins", "tests")


def git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


@pytest.fixture(scope="module")
def version_before(tmp_path_factory: pytest.TempPathFactory, deploy: Path, missing: Callable[[str], None]) -> str:
    """The Python of an environment that has the version before; PML_UPGRADE_FROM names another commit, or a Python."""
    named = os.environ.get("PML_UPGRADE_FROM", "")
    if named and Path(named).is_file():
        return named
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        missing("uv")
    root = deploy.parents[1]
    backs = (f"HEAD~{back}" for back in range(BACK, 6 * BACK, BACK))
    found = [named or git(root, "describe", "--tags", "--abbrev=0"), *(git(root, "rev-parse", one) for one in backs)]
    if not any(found):
        pytest.skip("this checkout has no history, so there is no version before")
    for commit in filter(None, found):
        if python := installed(root, commit, str(uv), tmp_path_factory.mktemp("before")):
            return python
    return pytest.fail(f"none of the versions before can be installed: {found}")


def installed(root: Path, commit: str, uv: str, folder: Path) -> str:
    """The Python of a new environment with the version of ``commit``; ``""`` if that one does not start."""
    archive = folder / "before.tar"
    subprocess.run(["git", "-C", str(root), "archive", "--output", str(archive), commit, *PARTS], check=True)
    shutil.unpack_archive(archive, folder / "source", filter="data")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder / "env")], check=True)
    python = folder / "env" / "bin" / "python"
    wanted = "./plugins/pml-gateway[postgres]"
    kept = {name: value for name, value in os.environ.items() if name not in ("UV_NO_SOURCES", "UV_RESOLUTION")}
    command = [uv, "pip", "install", "--quiet", "--python", str(python), wanted]
    put = subprocess.run(command, check=False, cwd=folder / "source", env=kept)
    starts = put.returncode == 0 and subprocess.run([python, "-m", "pml_core", "servers", "list"], check=False)
    return str(python) if starts and starts.returncode == 0 else ""


def rows(url: str) -> int:
    """Calls in the history."""
    import psycopg

    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*) FROM pml.execution").fetchone()
        assert found is not None
        return int(found[0])


def test_a_fleet_is_upgraded_under_load(
    version_before: str, database: Cluster, tmp_path: Path, deploy: Path, missing: Callable[[str], None]
) -> None:
    program = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if program is None:
        missing("haproxy")
    url = database.database()
    config = CONFIG.format(url=url)
    fleet = [Gateway.with_server(tmp_path, config, f"gateway{number}", python=version_before) for number in (1, 2)]
    try:
        for gateway in fleet:
            gateway.start().ready()
        ports = [gateway.port for gateway in fleet]
        # The version before may not know /readyz, and refuse a check that has no Host.
        with (
            haproxy(str(program), deploy / "haproxy.cfg", tmp_path, ports, asks=False) as address,
            Callers(address).calling() as callers,
        ):
            for gateway in fleet:
                callers.more(BETWEEN)
                tell_haproxy(tmp_path, f"set server gateways/gateway{gateway.port} state drain")
                callers.more(BETWEEN)
                assert gateway.stop() == 128 + 15
                gateway.python = sys.executable
                gateway.start().ready()
                assert gateway.status("/readyz") == 200
                tell_haproxy(tmp_path, f"set server gateways/gateway{gateway.port} state ready")
                # Old and new beside each other, or the new alone.
                callers.more(BETWEEN)
        assert callers.failed == []
        noted = (tmp_path / "notes").read_text(encoding="utf-8").split()
        assert sorted(noted) == sorted(callers.answered)
        assert rows(url) == len(callers.answered)
    finally:
        for gateway in fleet:
            if gateway.process is not None and gateway.process.poll() is None:
                gateway.stop()
