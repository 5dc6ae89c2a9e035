"""What the tests of the core share: a place without the user's own configuration, and made-up installations."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.metadata
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import stevedore

from pml_core import trust
from pml_core.config_files import PRESETS, PROJECT_FILES
from pml_core.errors import OperatorError
from pml_hookspecs import RawObject
from pml_testing.gateway import ScriptedLink

OUR_API = "pml-hookspecs>=0.2,<1"
KEPT = ("pml-core", "pml-hookspecs", "pml-testing")


class Place:
    """A project and a user's folder, both empty, and nothing in the environment."""

    def __init__(self, root: Path) -> None:
        self.project, self.home = root / "project", root / "home"
        self.project.mkdir()
        self.home.mkdir()

    def write(self, name: str, text: str) -> Path:
        """A file in the project; its configuration is trusted, as far as it can be read."""
        path = self.project / name
        path.write_text(text, encoding="utf-8")
        if name in (*PROJECT_FILES, PRESETS):
            with contextlib.suppress(OperatorError):
                trust.keep({path: trust.agreement_to(path, path.read_bytes())})
        return path

    def users(self, name: str, text: str) -> Path:
        """A file in the user's PML folder."""
        path = self.home / name
        path.write_text(text, encoding="utf-8")
        return path


class Installation:
    """Distributions that only this test sees. No distribution of PML but the core and the hook specs is installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(
        self,
        name: str,
        points: Mapping[str, Mapping[str, str]] | str,
        *,
        version: str = "1.0",
        requires: Sequence[str] = (OUR_API,),
        modules: Mapping[str, str] | None = None,
        metadata: str | None = None,
    ) -> None:
        """Install a distribution.

        Args:
            points: Entry points by group and name, or the text of ``entry_points.txt``.
            modules: Source by module name.
            metadata: The text of ``METADATA``; ``""`` for none at all.
        """
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        text = "\n".join([*lines, *(f"Requires-Dist: {line}" for line in requires)]) + "\n"
        if metadata != "":
            (info / "METADATA").write_text(text if metadata is None else metadata)
        if not isinstance(points, str):
            groups = (
                [f"[{group}]", *(f"{n} = {target}" for n, target in entries.items())]
                for group, entries in points.items()
            )
            points = "\n".join(line for group in groups for line in group) + "\n"
        (info / "entry_points.txt").write_text(points)
        for module, source in (modules or {}).items():
            (self.folder / f"{module}.py").write_text(source)
        importlib.invalidate_caches()


@pytest.fixture(scope="session", autouse=True)
def _no_cache_of_entry_points_in_the_users_home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def place(tmp_path, monkeypatch):
    for name in list(os.environ):
        if name.upper().startswith("PML_"):
            monkeypatch.delenv(name)
    root = tmp_path / "place"
    root.mkdir()
    made = Place(root)
    monkeypatch.setenv("PML_HOME", str(made.home))
    monkeypatch.chdir(made.project)
    return made


@pytest.fixture
def installation(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    folder.mkdir()
    loaded = set(sys.modules)
    monkeypatch.syspath_prepend(str(folder))
    everything = importlib.metadata.distributions

    def visible(**context):
        for dist in everything(**context):
            text = dist.read_text("entry_points.txt") or ""
            if "[pml." not in text or Path(str(dist.locate_file(""))) == folder or dist.metadata["Name"] in KEPT:
                yield dist

    monkeypatch.setattr(importlib.metadata, "distributions", visible)
    # stevedore keeps the entry points of each group for as long as the process lives.
    monkeypatch.setattr(stevedore.ExtensionManager, "ENTRY_POINT_CACHE", {})
    yield Installation(folder)
    for name in set(sys.modules) - loaded:
        if getattr(sys.modules[name], "__file__", None) and str(folder) in str(sys.modules[name].__file__):
            del sys.modules[name]


@pytest.fixture
def quick(monkeypatch):
    """Pauses before another attempt take no time; those asked for are kept."""
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def noted(delay_s, result=None):
        if sys._getframe(1).f_globals["__name__"] != "pml_core.downstream.instance":
            return await sleep(delay_s, result)
        pauses.append(delay_s)
        return await sleep(0, result)

    monkeypatch.setattr(asyncio, "sleep", noted)
    return pauses


@pytest.fixture
def sent(monkeypatch):
    """Every request that a server was sent, as bytes."""
    kept: list[tuple[str, bytes]] = []
    request = ScriptedLink.request

    async def spied(self, method, params, *, timeout_s):
        kept.append((method, RawObject.of(params).raw))
        return await request(self, method, params, timeout_s=timeout_s)

    monkeypatch.setattr(ScriptedLink, "request", spied)
    return kept
