"""The part of the matrix that follows from the tree; tox reads this beside ``tox.ini``.

Each plugin is tested alone, on the oldest interpreter with the oldest dependencies allowed: ``py311-NAME-lowest``. A
folder under ``plugins/`` gets this lane by being there; what its tests need besides is the dependency group ``test`` of
its ``pyproject.toml``.

The lanes of ``tox.ini`` find in variables what they install of the tree, a requirement a line: ``UNDER_TEST`` is the
contract, the core and what tests with it, ``EVERY_PLUGIN`` and ``EVERY_EXAMPLE`` speak for themselves, and
``EVERY_TEST_NEED`` is what the tests of all plugins need from elsewhere.

With ``PML_WHEELS``, a folder of wheels that were built from this tree, what is ours is installed from there: building
is most of what it takes to make a lane's environment.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tox.config.loader.memory import MemoryLoader
from tox.config.types import Command
from tox.plugin import impl

if TYPE_CHECKING:
    from tox.config.sets import ConfigSet
    from tox.session.state import State

ROOT = Path(__file__).parent
ALONE = "py311-{}-lowest"
BASE = ("pml-hookspecs", "pml-core", "pml-testing")
INSTALLED = "tests/architecture/test_installed.py"
LOOKING = "pml-admin"
"""What looks at a plugin from outside: its doctor, and what lists it."""
WHEELS = os.environ.get("PML_WHEELS", "")
NAME = re.compile(r"[A-Za-z0-9._-]+")


class Distribution:
    """A folder with a ``pyproject.toml``."""

    def __init__(self, file: Path) -> None:
        self.folder = file.parent
        document: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
        self.project: dict[str, Any] = document["project"]
        self.name: str = self.project["name"]
        self.needs: list[str] = self.project.get("dependencies", [])
        """What it needs to run, as written."""
        self.needs_for_tests: list[str] = document.get("dependency-groups", {}).get("test", [])
        """What its tests need besides, as written."""

    @property
    def path(self) -> str:
        """From the root, with slashes."""
        return f"./{self.folder.relative_to(ROOT).as_posix()}"

    @property
    def installed_from(self) -> str:
        """What an installer takes it from: its wheel where there is one, else its folder."""
        found = sorted(Path(WHEELS).absolute().glob(f"{self.name.replace('-', '_')}-*.whl")) if WHEELS else []
        return found[0].as_posix() if found else self.path

    @property
    def size_of_tests(self) -> int:
        """In bytes; about how long they take, compared with others."""
        return sum(path.stat().st_size for path in self.folder.glob("tests/**/*.py"))

    @property
    def factor(self) -> str:
        """Its part of its lanes' names."""
        return self.name.removeprefix("pml-").replace("-", "_")

    @property
    def has_code(self) -> bool:
        """One that has none only names others."""
        return (self.folder / "src").is_dir()


def below(pattern: str) -> list[Distribution]:
    """Those whose folders match, by name."""
    return [Distribution(file) for file in sorted(ROOT.glob(f"{pattern}/pyproject.toml"))]


PLUGINS, EXAMPLES = below("plugins/*"), below("examples/*")
OURS = {one.name: one for pattern in ("hookspecs", "pml_core", "tests") for one in below(pattern)}
OURS |= {one.name: one for one in (*PLUGINS, *EXAMPLES)}


def ours(need: str) -> Distribution | None:
    """The distribution of this tree that a requirement asks for; None when it is somebody else's."""
    found = NAME.match(need)
    return OURS.get(found.group()) if found else None


def deps(needs: Iterable[str]) -> list[str]:
    """``needs`` with ours by path, and of ours all that they need of ours.

    Of those that are installed from wheels also what they need from elsewhere: what an installer lowers to the oldest
    is what it is asked for, and what folders ask for.
    """
    asked = list(needs)
    installed: dict[str, None] = {}
    for need in asked:
        one = ours(need)
        installed[need if one is None else one.installed_from] = None
        if one is not None:
            built = one.installed_from != one.path
            asked += [other for other in one.needs if (built or ours(other)) and other not in asked]
    return list(installed)


os.environ["UNDER_TEST"] = "\n".join(deps(BASE))
os.environ["EVERY_PLUGIN"] = "\n".join(deps(one.name for one in PLUGINS))
os.environ["EVERY_EXAMPLE"] = "\n".join(deps([*OURS.keys() & {LOOKING}, *(one.name for one in EXAMPLES)]))
os.environ["EVERY_TEST_NEED"] = "\n".join(
    sorted({need for one in PLUGINS for need in one.needs_for_tests if not ours(need)})
)


def alone(plugin: Distribution, rest: Iterable[str]) -> MemoryLoader:
    """The lane of one plugin; ``rest`` is what follows ``--`` on the command line."""
    tests = f"{plugin.path.removeprefix('./')}/tests"
    return MemoryLoader(
        description=f"{plugin.name} alone: {plugin.project['description']}",
        deps=deps([*BASE, *OURS.keys() & {LOOKING}, plugin.name, *plugin.needs_for_tests]),
        commands=[Command(["pytest", tests, INSTALLED, *rest]), Command(["pml", "plugins", "list"])],
    )


@impl
def tox_add_core_config(core_conf: ConfigSet, state: State) -> None:
    """Add the lanes of single plugins to those that run when none is named, the longest first."""
    for plugin in sorted(PLUGINS, key=lambda one: one.size_of_tests, reverse=True):
        if plugin.has_code:
            lane = ALONE.format(plugin.factor)
            core_conf["env_list"].envs.append(lane)
            state.conf.memory_seed_loaders[lane].append(alone(plugin, state.conf.pos_args(None) or ()))
