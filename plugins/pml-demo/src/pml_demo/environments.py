"""Install the demo's servers, once, into folders of their own below the user's PML folder."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from pml_kit.system.environment import passed_on

from . import processes
from .problem import DemoError
from .servers import Environment, python_of

INSTALL_S, NODE_S = 300.0, 40.0
"""Longest that an installation may take [s]; Node's servers are extras, so they get less."""
LEAST_NODE = 18
ABANDONED_S = 3600.0
"""Age after which a folder of an unfinished installation is taken for abandoned [s]."""
WANTED = ("PIP_*", "UV_*", "NPM_CONFIG_*", "npm_config_*")
"""Variables that tell pip, uv and npm where to look, besides those that every program gets."""
UNWANTED = ("PIP_USER", "PIP_TARGET", "PIP_PREFIX")
"""Variables of these that would make pip install somewhere else."""


def root() -> Path:
    """The folder that all environments are in."""
    return Path(os.environ.get("PML_HOME") or Path.home() / ".pml") / "demo"


def installed(environment: Environment) -> Path | None:
    """The folder of a complete installation; None when there is none, or its interpreter has gone."""
    folder = root() / environment.folder
    if environment.runtime == "python" and not Path(python_of(folder)).exists():
        return None
    return folder if folder.is_dir() else None


async def install(environment: Environment) -> Path:
    """Install unless that has been done; the folder.

    It is built elsewhere and renamed when complete, so what an interruption leaves is never taken for an
    installation.

    Raises:
        DemoError: It did not work.
    """
    if (folder := installed(environment)) is not None:
        return folder
    final = root() / environment.folder
    try:
        root().mkdir(parents=True, exist_ok=True)
        _remove_abandoned()
        partial = Path(tempfile.mkdtemp(prefix=f"{final.name}.partial-", dir=root()))
    except OSError as exc:
        raise DemoError(f"{root()}: cannot be written: {exc.strerror}; set PML_HOME to a folder that can") from exc
    try:
        await (_install_python if environment.runtime == "python" else _install_node)(environment, partial)
        _put_in_place(environment, partial, final)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return final


def _put_in_place(environment: Environment, partial: Path, final: Path) -> None:
    if final.exists() and installed(environment) is None:
        shutil.rmtree(final)
    try:
        partial.rename(final)
    except OSError:
        if installed(environment) is None:  # else another demo was faster
            raise


def _remove_abandoned() -> None:
    for path in root().glob("servers-*.partial-*"):
        if time.time() - path.stat().st_mtime > ABANDONED_S:
            shutil.rmtree(path, ignore_errors=True)


def _environment_variables() -> dict[str, str]:
    """Packages may run code while they are installed, which is to see no more than a server."""
    return {name: value for name, value in passed_on(os.environ, WANTED).items() if name not in UNWANTED}


async def _install_python(environment: Environment, folder: Path) -> None:
    env, why_not_uv = _environment_variables(), ""
    if (uv := find_uv()) is not None:
        try:
            await _with_uv(uv, environment, folder, env)
        except DemoError as exc:
            why_not_uv = f"\nBefore that, uv was tried: {exc}"
        else:
            return
    try:
        await _with_pip(environment, folder, env)
    except DemoError as exc:
        remedy = "Check that Python has the modules venv and ensurepip, and that the package index can be reached."
        names = " and ".join(environment.servers)
        raise DemoError(f"the servers {names} could not be installed: {exc}{why_not_uv}\n{remedy}") from exc


async def _with_uv(uv: list[str], environment: Environment, folder: Path, env: Mapping[str, str]) -> None:
    create = [*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)]
    await processes.run(create, cwd=root(), env=env, limit_s=INSTALL_S)
    add = [*uv, "pip", "install", "--quiet", "--python", python_of(folder), *environment.requirements]
    await processes.run(add, cwd=root(), env=env, limit_s=INSTALL_S)


async def _with_pip(environment: Environment, folder: Path, env: Mapping[str, str]) -> None:
    create = [sys.executable, "-m", "venv", "--clear", str(folder)]
    await processes.run(create, cwd=root(), env=env, limit_s=INSTALL_S)
    add = [python_of(folder), "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
    await processes.run([*add, *environment.requirements], cwd=root(), env=env, limit_s=INSTALL_S)


def find_uv() -> list[str] | None:
    """How to start uv: the one beside this Python, the one it can import, or the one on PATH; None without any."""
    beside = Path(sys.executable).with_name("uv")
    if beside.is_file():
        return [str(beside)]
    if find_spec("uv") is not None:
        return [sys.executable, "-m", "uv"]
    found = shutil.which("uv")
    return [found] if found else None


async def _install_node(environment: Environment, folder: Path) -> None:
    command = ["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts"]
    env = _environment_variables()
    await processes.run([*command, *environment.requirements], cwd=folder, env=env, limit_s=NODE_S)


async def node_version() -> int:
    """The major version of Node.

    Raises:
        DemoError: There is no Node that will do, or no npm.
    """
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise DemoError("node or npm is not installed")
    said = await processes.run(["node", "--version"], limit_s=10)
    digits = said.strip().lstrip("v").partition(".")[0]
    if not digits.isdecimal() or int(digits) < LEAST_NODE:
        raise DemoError(f"Node {LEAST_NODE} or newer is needed, this is {said.strip()}")
    return int(digits)
