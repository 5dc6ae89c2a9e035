"""The image: what builds it has nothing to complain about, and what it runs needs no rights and no writable root."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from gateways import Gateway

BUILDERS = ("gcc", "build-essential", "git", "make", "uv ", "curl", "wget")


def test_the_linter_has_nothing_to_complain_about(deploy: Path, missing: Callable[[str], None]) -> None:
    beside = Path(sys.executable).with_name("hadolint")
    hadolint = str(beside) if beside.exists() else shutil.which("hadolint")
    if hadolint is None:
        missing("hadolint")
    done = subprocess.run([hadolint, deploy / "Containerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_it_runs_as_nobody_in_particular_and_has_no_tools_that_build(deploy: Path) -> None:
    text = (deploy / "Containerfile").read_text(encoding="utf-8")
    stages = re.split(r"^FROM ", text, flags=re.MULTILINE)[1:]
    assert len(stages) == 2
    last = stages[-1]
    assert re.findall(r"^USER (.*)$", last, flags=re.MULTILINE) == ["10001:10001"]
    assert "pip uninstall --yes pip" in last
    assert not [tool for tool in BUILDERS if tool in last]
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", stages[0], flags=re.MULTILINE)
    root = deploy.parents[1]
    assert all((root / one).exists() for names in copied for one in names.split())
    (command,) = re.findall(r"^CMD (.*)$", last, flags=re.MULTILINE)
    assert json.loads(command)[0] == "serve"


def test_a_gateway_runs_where_all_but_its_home_is_read_only(tmp_path: Path, missing: Callable[[str], None]) -> None:
    if (bwrap := shutil.which("bwrap")) is None:
        missing("bwrap (bubblewrap)")
    home = tmp_path / "home"
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    around = [bwrap, "--unshare-user", "--uid", "10001", "--gid", "10001", "--ro-bind", "/", "/", "--dev", "/dev"]
    around += ["--proc", "/proc", "--tmpfs", "/tmp", "--bind", str(home), "/var/lib", "--chdir", "/var/lib"]
    around += ["--ro-bind", str(tmp_path), "/mnt", "--die-with-parent"]
    config = tmp_path / "pml.toml"
    config.write_text('[gateway]\nstore = "sqlite"\n', encoding="utf-8")
    gateway = Gateway(tmp_path, config=Path("/mnt/pml.toml"), around=around, home="/var/lib/pml")
    tried = subprocess.run([*around, "touch", "/opt/new"], capture_output=True, text=True, check=False)
    if "namespace" in tried.stderr or "Permission" in tried.stderr:
        missing("the right to make a user namespace")
    assert "Read-only file system" in tried.stderr, tried.stderr
    with gateway.running():
        assert json.loads(gateway.get("/readyz"))["status"] == "ready"
    assert (home / "pml" / "pml.db").exists()
