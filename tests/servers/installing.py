"""Each server in a folder of its own, outside the repository, at the version that ``servers.toml`` names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from entries import Entry

LIMIT_S = 300.0
NEWEST = ("python3.12", "python3.13", "python3.14", "python3.11")
"""Interpreters to make environments with, the first that runs; many servers need 3.12."""


class AbsentError(Exception):
    """A server that cannot be had here. The message says why, in one line."""


def cache() -> Path:
    """Where they are installed: ``PML_SERVERS_DIR``, else the user's cache."""
    chosen = os.environ.get("PML_SERVERS_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(chosen) if chosen else Path(base) / "pml-servers"


def _folder(entry: Entry) -> Path:
    return cache() / entry.package.replace("@", "").replace("/", "-")


def program(entry: Entry) -> Path:
    """Where its command is once it is installed."""
    binaries = "node_modules/.bin" if entry.registry == "npm" else "venv/bin"
    return _folder(entry) / binaries / entry.program


def _interpreter() -> str:
    for name in NEWEST:
        found = shutil.which(name)
        if found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
            return found
    return sys.executable


def _ran(command: list[str], folder: Path) -> None:
    try:
        ended = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise AbsentError(f"{Path(command[0]).name}: {exc}") from exc
    if ended.returncode:
        said = (ended.stderr or ended.stdout).strip().splitlines() or ["(it said nothing)"]
        raise AbsentError(f"{Path(command[0]).name} ended with code {ended.returncode}: {said[-1].strip()}")


def installed(entry: Entry, *, may_install: bool = True) -> Path:
    """Its command, installed if it was not. Scripts of npm packages are not run.

    Raises:
        AbsentError: It is not there, and could not or may not be installed.
    """
    folder, mark = _folder(entry), _folder(entry) / "done"
    if mark.is_file() and mark.read_text() == entry.version and program(entry).exists():
        return program(entry)
    if not may_install:
        raise AbsentError("not installed")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if entry.registry == "npm":
        (folder / "package.json").write_text('{"private": true}')
        quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        _ran(["npm", "install", *quiet, f"{entry.package}@{entry.version}"], folder)
    else:
        uv = str(Path(sys.executable).with_name("uv"))
        _ran([uv, "venv", "--quiet", "--python", _interpreter(), "venv"], folder)
        wanted = [f"{entry.package}=={entry.version}", *entry.beside]
        _ran([uv, "pip", "install", "--quiet", "--python", "venv", *wanted], folder)
    if not program(entry).exists():
        raise AbsentError(f"the package has no command {entry.program}")
    mark.write_text(entry.version)
    return program(entry)
