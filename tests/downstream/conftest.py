"""Every distribution built as it would be uploaded, and environments that have nothing of this checkout.

The lanes ``wheels`` and ``downstream`` run this with ``--confcutdir=tests/downstream``: what tests the checkout, the
root's conftest included, stays out of it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
WHERE = ("hookspecs", "pml_core", "tests", "plugins/*", "examples/*")
BUILD = """
import os, sys, tarfile
from pathlib import Path
from hatchling.build import build_sdist, build_wheel

into, work, *folders = map(Path, sys.argv[1:])
for folder in folders:
    os.chdir(folder)
    sdist = into / build_sdist(str(into))
    with tarfile.open(sdist) as file:
        file.extractall(work, filter="data")
    os.chdir(work / sdist.name.removesuffix(".tar.gz"))
    build_wheel(str(into))
"""
"""What ``python -m build`` does, the wheel being built from the sdist, in one process and one environment for all."""
LIMIT_S = 300.0
"""Longest that a command may take [s]."""
BUILDERS = 2


@dataclass(frozen=True)
class Distribution:
    """A folder that is published on its own, or copied by integrators."""

    folder: Path

    @cached_property
    def project(self) -> Mapping[str, Any]:
        """The ``[project]`` table."""
        document = tomllib.loads((self.folder / "pyproject.toml").read_text(encoding="utf-8"))
        return {"test": document.get("dependency-groups", {}).get("test", []), **document["project"]}

    @property
    def name(self) -> str:
        return str(self.project["name"])

    @property
    def module(self) -> str:
        return self.name.replace("-", "_")

    @property
    def stem(self) -> str:
        """What its files are called before the version's end."""
        return f"{self.module}-{self.project['version']}"

    @property
    def example(self) -> bool:
        return self.folder.parent.name == "examples"

    @property
    def ours_to_test(self) -> list[str]:
        """Our distributions that its tests need, besides what it needs itself."""
        return [found.group() for line in self.project["test"] if (found := re.match(r"pml-[a-z-]+[a-z]", line))]


DISTRIBUTIONS = [Distribution(path.parent) for where in WHERE for path in sorted(ROOT.glob(f"{where}/pyproject.toml"))]
EXAMPLES = [one for one in DISTRIBUTIONS if one.example]
PLUGINS = [one for one in DISTRIBUTIONS if one.folder.parent.name == "plugins" and (one.folder / "src").is_dir()]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``distribution`` is each of them in turn, ``plugin`` each plugin, ``example`` each example."""
    for name, values in (("distribution", DISTRIBUTIONS), ("plugin", PLUGINS), ("example", EXAMPLES)):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, values, ids=lambda one: one.name)


@dataclass(frozen=True)
class CommandResult:
    """How a command ended."""

    status: int
    out: str
    error: str

    @property
    def said(self) -> str:
        return self.out + self.error


def run(
    *command: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None, told: str = ""
) -> CommandResult:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=env,
        input=told,
        capture_output=True,
        encoding="utf-8",
        timeout=LIMIT_S,
        check=False,
    )
    return CommandResult(done.returncode, done.stdout, done.stderr)


@cache
def uv_command() -> str:
    """Where uv is. Not to be asked for the first time by two threads at once: what it asks is not ready for that."""
    import uv as package

    return str(package.find_uv_bin())


def uv(*words: str | Path) -> CommandResult:
    """Run uv, which must succeed."""
    done = run(uv_command(), *words)
    assert done.status == 0, f"uv {' '.join(map(str, words))}\n{done.said}"
    return done


@dataclass(frozen=True)
class Built:
    """A folder with one sdist and one wheel of each distribution."""

    folder: Path

    def wheel(self, one: Distribution) -> Path:
        (found,) = self.folder.glob(f"{one.stem}-*.whl")
        return found

    def sdist(self, one: Distribution) -> Path:
        return self.folder / f"{one.stem}.tar.gz"

    @staticmethod
    def in_isolation(one: Distribution, into: Path) -> None:
        """Build one as an integrator does."""
        uv("build", "--quiet", "--no-sources", one.folder, "--out-dir", into)

    def by(self, tool: str, place: Path, *words: str, told: str = "") -> CommandResult:
        """Run ``pml`` in a place of its own, as a tool brings it that is asked for ``pml-gateway`` and no more."""
        found, bins = f"--find-links={self.folder}", str(place / "bin")
        env = {**os.environ, "PML_HOME": str(place / "home"), "UV_NO_SOURCES": "1"}
        env |= {"UV_TOOL_DIR": str(place / "tools"), "UV_TOOL_BIN_DIR": bins}
        env |= {"PIPX_HOME": str(place / "pipx"), "PIPX_BIN_DIR": bins}
        here = ("--python", sys.executable)
        if tool == "uvx":
            made = (uv_command(), "tool", "run", "--quiet", *here, found, "--from", "pml-gateway", "pml", *words)
            return run(*made, cwd=place, env=env, told=told)
        install = {
            "uv": (uv_command(), "tool", "install", "--quiet", *here, found),
            "pipx": (sys.executable, "-m", "pipx", "install", *here, f"--pip-args={found}"),
        }
        done = run(*install[tool], "pml-gateway", cwd=place, env=env)
        return run(place / "bin" / "pml", *words, cwd=place, env=env, told=told) if done.status == 0 else done

    def named(self, *names: str) -> list[Distribution]:
        """With all of ours that they need, so that none is looked for elsewhere."""
        by_name = {one.name: one for one in DISTRIBUTIONS}
        wanted, found = list(names), dict[str, Distribution]()
        while wanted:
            name = wanted.pop()
            if name not in by_name or name in found:
                continue
            found[name] = by_name[name]
            wanted += [re.split(r"[^A-Za-z0-9._-]", line)[0] for line in found[name].project["dependencies"]]
        return list(found.values())


@pytest.fixture(scope="session")
def distributions() -> list[Distribution]:
    return DISTRIBUTIONS


@pytest.fixture(scope="session")
def examples() -> list[Distribution]:
    return EXAMPLES


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Built anew; or, to test exactly what is about to be uploaded, what is in the folder ``PML_DIST``."""
    if given := os.environ.get("PML_DIST"):
        return Built(Path(given).resolve())
    folder, work = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("unpacked")

    def build(some: Sequence[Distribution]) -> None:
        done = run(sys.executable, "-P", "-c", BUILD, folder, work, *(one.folder for one in some))
        assert done.status == 0, done.said

    with ThreadPoolExecutor(BUILDERS) as pool:
        list(pool.map(build, [DISTRIBUTIONS[n::BUILDERS] for n in range(BUILDERS)]))
    return Built(folder)


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and a folder to work in that is not the checkout."""

    folder: Path
    work: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def variables(self) -> dict[str, str]:
        """No variable of the outside that could lead back to the checkout or to the user's data."""
        kept = {name: value for name, value in os.environ.items() if name in ("LANG", "LC_ALL", "TMPDIR")}
        home = str(self.work / "home")
        path = os.pathsep.join((str(self.folder / "bin"), os.defpath))
        return {**kept, "PATH": path, "HOME": home, "PML_HOME": home, "PYTHONSAFEPATH": "1"}

    def run(self, command: str, *words: str, cwd: Path | None = None) -> CommandResult:
        """Run a command that is installed in it."""
        (self.work / "home").mkdir(exist_ok=True)
        return run(self.folder / "bin" / command, *words, cwd=cwd or self.work, env=self.variables)

    def check(self) -> None:
        """Hold that what is installed fits together."""
        uv("pip", "check", "--python", self.python)

    def strays(self) -> list[str]:
        """What of the checkout its Python could import; nothing, it is hoped."""
        looks = (
            "import sys; from importlib import metadata as m; print(*sys.path, sep='\\n');"
            "print(*(str(d.locate_file('')) for d in m.distributions()), sep='\\n')"
        )
        return [line for line in self.run("python", "-c", looks).out.splitlines() if line.startswith(str(ROOT))]


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Environment]]:
    """``environment(files, "pytest")``: with these files and names installed, each of ours from its file."""
    made: list[Environment] = []

    def make(files: Sequence[Path], *names: str) -> Environment:
        folder = tmp_path_factory.mktemp("environment")
        one = Environment(folder / "venv", folder / "work")
        one.work.mkdir()
        uv("venv", "--quiet", "--python", sys.executable, one.folder)
        uv("pip", "install", "--quiet", "--no-sources", "--python", one.python, *files, *names)
        made.append(one)
        return one

    yield make
    for one in made:
        shutil.rmtree(one.folder)
