"""What tests of the ``pml`` command share: a place without the user's own configuration, and made-up installations.

A conftest imports the fixtures that it offers, and defines ``kept`` if something is installed that its tests need.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import stevedore

from pml_clients.configuration import trust
from pml_clients.configuration.files import PRESETS, PROJECT_FILES
from pml_core.cli import main
from pml_core.plugins import local_plugins
from pml_kit.errors import OperatorError

OUR_API = "pml-hookspecs>=0.2,<0.3"
KEPT = ("pml-core", "pml-hookspecs", "pml-testing")

HOOKS = "from pml_hookspecs import hookimpl\n"
SETTINGS = """
from dataclasses import dataclass
from pml_hookspecs import setting
@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    limit: int = setting(10, "Most tools [tools].", ge=1)
    pin: str = setting("", "What opens the door.", secret=True)
"""
LOCAL_PLUGIN = """
from __future__ import annotations
from dataclasses import dataclass
from pml_hookspecs import MetaTool, hookimpl, setting

@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    greeting: str = setting("hello", "What it says.")
    times: int = setting(1, "How often.", ge=1)

settings_type = Settings

async def greet(arguments, run):
    return {"said": WORDS.greeting * WORDS.times}

@hookimpl
def pml_meta_tools(services):
    global WORDS
    WORDS = services.settings
    return [MetaTool(definition={"name": "greet", "inputSchema": {"type": "object"}}, call=greet)]
"""
STORE = (
    SETTINGS
    + """
from pml_core.plugins.nulls import MemoryStore
class Store(MemoryStore):
    settings_type = Settings
"""
)
WRAPPER = (
    HOOKS
    + """
from pml_hookspecs import Check, Phase
class Guard:
    phase = Phase.VALIDATE
    async def __call__(self, task, run, call_next): return await call_next(task, run)
@hookimpl
def pml_wrap_executor(services): return [Guard()]
@hookimpl
def pml_checks(services): return [Check("the door", False, "is open", "Close it.")]
@hookimpl
def pml_commands(subcommands):
    parser = subcommands.add_parser("guard", help="stands guard")
    parser.set_defaults(run=lambda arguments: 7)
"""
)


class Place:
    """A project and a user's folder, both empty, and nothing in the environment."""

    def __init__(self, root: Path) -> None:
        """``root`` is an empty folder."""
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
    """Distributions that only this test sees. No distribution of PML but :data:`KEPT` is installed."""

    def __init__(self, folder: Path) -> None:
        """``folder`` is an empty one in ``sys.path``."""
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
def cache_of_entry_points(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Entry points are not remembered in the user's home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The working directory and PML's home of the test."""
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
def kept() -> Sequence[str]:
    """Distributions that stay installed besides :data:`KEPT`."""
    return ()


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: Sequence[str]) -> Iterator[Installation]:
    """Where the test installs what it needs."""
    folder = tmp_path / "site"
    folder.mkdir()
    loaded = set(sys.modules)
    monkeypatch.syspath_prepend(str(folder))
    everything = importlib.metadata.distributions

    def visible(**context: Any) -> Iterator[importlib.metadata.Distribution]:
        for dist in everything(**context):
            text = dist.read_text("entry_points.txt") or ""
            stays = "Name" in dist.metadata and dist.metadata["Name"] in (*KEPT, *kept)
            if "[pml." not in text or stays or Path(str(dist.locate_file(""))) == folder:
                yield dist

    monkeypatch.setattr(importlib.metadata, "distributions", visible)
    # stevedore keeps the entry points of each group for as long as the process lives.
    monkeypatch.setattr(stevedore.ExtensionManager, "ENTRY_POINT_CACHE", {})
    made = Installation(folder)
    made.add("acme-pack", {"pml.defaults": {"store": "sqlite", "tracers.log": "log", "tracers.store": "store"}})
    yield made
    for name in set(sys.modules) - loaded:
        if getattr(sys.modules[name], "__file__", None) and str(folder) in str(sys.modules[name].__file__):
            del sys.modules[name]


def installed(installation: Any, place: Any) -> None:
    """A store, a hook plugin, and the drivers that the defaults name."""
    installation.add("acme-store", {"pml.store": {"sqlite": "acme_store:Store"}}, modules={"acme_store": STORE})
    installation.add("acme-guard", {"pml.plugins": {"guard": "acme_guard"}}, modules={"acme_guard": WRAPPER})
    driver = (
        "from pml_hookspecs import ExposureMode, Selection, Tracer\n"
        "class D(Tracer, ExposureMode):\n"
        "    def __init__(self, settings, services): pass\n"
        "    async def select(self, catalog, session): return Selection(())\n"
    )
    points = {
        "pml.tracer": {"log": "acme_rest:D", "store": "acme_rest:D"},
        "pml.exposure_mode": {"meta_only": "acme_rest:D"},
    }
    installation.add("acme-rest", points, modules={"acme_rest": driver})


def status(*words: str) -> int:
    """How ``pml`` ends."""
    try:
        return main(words)
    except SystemExit as exc:  # argparse's own way out
        return int(exc.code or 0)


def printed(capsys: Any, *words: str) -> Any:
    """What ``pml`` prints as JSON."""
    assert main(words) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def no_local_modules() -> Iterator[None]:
    """Modules of plugins that are files are gone afterwards."""
    yield
    for name in [name for name in sys.modules if name.startswith(local_plugins.MODULE)]:
        del sys.modules[name]


@pytest.fixture
def policy(place: Place, installation: Any, no_local_modules: None) -> Path:
    """A plugin that is a file, named in the user's configuration."""
    path = place.users("policy.py", LOCAL_PLUGIN)
    path.chmod(0o644)
    place.users("config.toml", "[gateway]\nlocal = ['policy.py']\n")
    return path
