"""A plugin that was built for a contract that was broken since is refused in one line, and everything else goes on.

``pml-plugin-0-1`` is that plugin: every hook of 0.1, an exposure mode, a tracer, a wrapper. It is installed as a user's
would be, into a folder of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pml_core.plugins.registry import State, discover

HERE = Path(__file__).parent
PLUGIN = HERE / "pml-plugin-0-1"
FROZEN = "0dccac7b1be9e5fa13856ada77032177dd7f22951bb5a178ea48f0e0503a32d5"
"""Of the plugin's files. It never changes."""
NAME, DIST, MODULE = "plugin_0_1", "pml-plugin-0-1", "pml_plugin_0_1"
PROBLEM = "was made for pml-hookspecs 0.1.0: its range <1,>=0.1 admits it, and 0.2 broke that"
REMEDY = "Upgrade pml-plugin-0-1, or change it as docs/plugins/changes-0.2.md says."
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


def test_its_files_are_as_they_were():
    digest = hashlib.sha256()
    for path in sorted(path for path in PLUGIN.rglob("*") if path.suffix in (".md", ".py", ".toml")):
        digest.update(f"{path.relative_to(PLUGIN).as_posix()}\0".encode())
        digest.update(path.read_bytes().replace(b"\r\n", b"\n"))
    assert digest.hexdigest() == FROZEN, "the plugin of the oldest contract was edited; put it back as it was"


@pytest.mark.parametrize("thorough", [True, False])
def test_it_is_refused_with_what_to_do_and_never_imported(site, monkeypatch, thorough):
    monkeypatch.syspath_prepend(str(site))
    records = [record for record in discover(thorough=thorough) if record.dist == DIST]
    assert [(record.kind, record.name) for record in records] == [
        ("exposure_mode", NAME),
        ("hooks", NAME),
        ("tracer", NAME),
    ]
    assert {(record.state, record.problem, record.remedy) for record in records} == {
        (State.INCOMPATIBLE, PROBLEM, REMEDY)
    }
    assert not [name for name in sys.modules if name.partition(".")[0] == MODULE]


def test_the_doctor_says_so_and_commands_go_on(pml):
    pytest.importorskip("pml_admin")
    lines = [one for one in json.loads(pml("plugins", "doctor", "--json").stdout) if NAME in one["subject"]]
    assert lines
    assert {(one["ok"], one["detail"], one["remedy"]) for one in lines} == {
        (False, f"pml-plugin-0-1 0.1.0: {PROBLEM}", REMEDY)
    }
    done = pml("config", "check")
    assert "Traceback" not in done.stderr
    assert "ImportError" not in done.stderr
