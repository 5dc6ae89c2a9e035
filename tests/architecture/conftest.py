"""What every test of the shape needs to know: where the tree is and which distributions it holds."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BUDGETS = "tests/architecture/budgets.toml"


@dataclass(frozen=True)
class Distribution:
    """A folder with a ``pyproject.toml``."""

    folder: Path

    @property
    def path(self) -> str:
        """Relative to the root, with slashes."""
        return self.folder.relative_to(ROOT).as_posix()

    @property
    def project(self) -> Mapping[str, Any]:
        """The ``[project]`` table."""
        text = (self.folder / "pyproject.toml").read_text(encoding="utf-8")
        project: Mapping[str, Any] = tomllib.loads(text)["project"]
        return project

    @property
    def name(self) -> str:
        return str(self.project["name"])

    @property
    def module(self) -> str:
        """The package it installs."""
        return self.name.replace("-", "_")

    @property
    def factor(self) -> str:
        """Its part of its lanes' names."""
        return self.module.removeprefix("pml_")

    @property
    def needs_for_tests(self) -> list[str]:
        """Its dependency group ``test``."""
        document = tomllib.loads((self.folder / "pyproject.toml").read_text(encoding="utf-8"))
        return list(document["dependency-groups"]["test"])

    @property
    def package(self) -> Path:
        return self.folder / "src" / self.module

    @property
    def is_library(self) -> bool:
        """Whether it registers nothing: plugins share it, as they share the hook specs."""
        return "entry-points" not in self.project


def _plugins() -> list[Distribution]:
    """Those with code: the metapackage only names others."""
    found = [Distribution(path.parent) for path in sorted((ROOT / "plugins").glob("*/pyproject.toml"))]
    return [one for one in found if (one.folder / "src").is_dir()]


PLUGINS = _plugins()
OTHERS = [Distribution(ROOT / name) for name in ("hookspecs", "pml_core", "tests")]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``plugin`` is each plugin in turn, ``distribution`` each distribution with code."""
    for name, values in (("plugin", PLUGINS), ("distribution", [*OTHERS, *PLUGINS])):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, values, ids=lambda one: one.name)


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def plugins() -> list[Distribution]:
    return PLUGINS


@pytest.fixture(scope="session")
def workspace() -> Mapping[str, Any]:
    """The root's ``pyproject.toml``."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _lanes_of(root: Path) -> configparser.ConfigParser:
    """Every lane that runs when none is named, as tox itself understands ``tox.ini`` and ``toxfile.py``."""
    keys = ("description", "deps", "commands_pre", "commands", "set_env")
    # As a child of a lane it would take that lane's settings.
    env = {name: value for name, value in os.environ.items() if not name.startswith("TOX_")}
    done = subprocess.run(
        [sys.executable, "-m", "tox", "config", "-k", *keys],
        check=False,
        cwd=root,
        capture_output=True,
        text=True,
        env=env | {"NO_COLOR": "1"},
    )
    assert done.returncode == 0, done.stderr
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",), strict=False)
    parser.read_string(done.stdout)
    return parser


@pytest.fixture(scope="session")
def lanes() -> configparser.ConfigParser:
    """The lanes of this tree."""
    return _lanes_of(ROOT)


@pytest.fixture(scope="session")
def lanes_of() -> Callable[[Path], configparser.ConfigParser]:
    """The lanes of another tree."""
    return _lanes_of


@pytest.fixture(scope="session")
def sources() -> list[Path]:
    """Every source file of every distribution."""
    return [path for one in (*OTHERS, *PLUGINS) for path in sorted((one.folder / "src").rglob("*.py"))]


@dataclass(frozen=True)
class Budgets:
    """What ``budgets.toml`` allows."""

    tables: Mapping[str, Mapping[str, Any]]

    def hold(self, name: str, real: int) -> None:
        """A number is neither above its budget nor so far below that the budget is out of date."""
        table = self.tables[name]
        what, now = table["what"], table["now"]
        goal = f", the goal {table['goal']}" if "goal" in table else ""
        assert real <= now, f"{what}: {real}; the budget is {now}{goal}. {table['do']}."
        low = now - table["room"]
        assert real >= low, f"{what}: {real}, and {now} are noted. Well done: {BUDGETS}, [{name}]: now = {real}"

    def hold_list(self, name: str, real: Iterable[str]) -> None:
        """Nothing is there that is not listed, and nothing is listed that is gone."""
        table = self.tables[name]
        found, noted = {*real}, {*table["now"]}
        assert found <= noted, f"{table['what']}: new is {sorted(found - noted)}. {table['do']}."
        gone = sorted(noted - found)
        assert not gone, f"{table['what']}: gone is {gone}. Well done: strike it from now under [{name}] in {BUDGETS}"


@pytest.fixture(scope="session")
def budgets() -> Budgets:
    return Budgets(tomllib.loads((ROOT / BUDGETS).read_text(encoding="utf-8")))
