"""The part of the matrix that follows from the tree; tox reads this beside ``tox.ini``.

Each plugin is tested alone: on the oldest interpreter with the oldest dependencies allowed (``py311-NAME-lowest``: all
of its tests), and on the newest with the newest (``py313-NAME-highest``: that it is there, and its contract; all of its
tests run on these in ``py313-neighbours-highest``). A folder under ``plugins/`` gets these lanes by being there; what
its tests need besides is the dependency group ``test`` of its ``pyproject.toml``.

The lanes of ``tox.ini`` find in variables what they install of the tree, a requirement a line: ``UNDER_TEST`` is the
contract, the core and what tests with it, ``EVERY_PLUGIN`` and ``EVERY_EXAMPLE`` speak for themselves, and
``EVERY_TEST_NEED`` is what the tests of all plugins need from elsewhere.
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
OLDEST, NEWEST = "py311-{}-lowest", "py313-{}-highest"
BASE = ("pml-hookspecs", "pml-core", "pml-testing")
INSTALLED = "tests/architecture/test_installed.py"
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
        """From the root, with slashes, as something to install."""
        return f"./{self.folder.relative_to(ROOT).as_posix()}"

    @property
    def factor(self) -> str:
        """Its part of its lanes' names."""
        return self.name.removeprefix("pml-").replace("-", "_")

    @property
    def has_code(self) -> bool:
        """One that has none only names others."""
        return (self.folder / "src").is_dir()

    @property
    def contracted(self) -> list[str]:
        """Names of what it registers and of its hook plugins that wrap tasks: those have a contract to keep."""
        return sorted(
            {
                name
                for group, entries in self.project.get("entry-points", {}).items()
                for name, target in entries.items()
                if group.startswith("pml.")
                and (group != "pml.plugins" or "def pml_wrap_executor" in self._source(target))
            }
        )

    def _source(self, target: str) -> str:
        """Text of the module that an entry point names."""
        path = self.folder / "src" / target.partition(":")[0].replace(".", "/")
        return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")


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
    """``needs`` with ours by path, and of ours all that they need of ours."""
    asked = list(needs)
    installed: dict[str, None] = {}
    for need in asked:
        one = ours(need)
        installed[need if one is None else one.path] = None
        asked += [] if one is None else [other for other in one.needs if ours(other) and other not in asked]
    return list(installed)


os.environ["UNDER_TEST"] = "\n".join(deps(BASE))
os.environ["EVERY_PLUGIN"] = "\n".join(one.path for one in PLUGINS)
os.environ["EVERY_EXAMPLE"] = "\n".join(deps(one.name for one in EXAMPLES))
os.environ["EVERY_TEST_NEED"] = "\n".join(
    sorted({need for one in PLUGINS for need in one.needs_for_tests if not ours(need)})
)


def alone(plugin: Distribution, lane: str, rest: Iterable[str]) -> MemoryLoader:
    """A lane of one plugin; ``rest`` is what follows ``--`` on the command line."""
    commands = [Command(["pytest", INSTALLED, *rest])]
    if lane == OLDEST.format(plugin.factor):
        commands = [Command(["pytest", f"{plugin.path.removeprefix('./')}/tests", INSTALLED, *rest])]
    elif plugin.contracted:
        commands.append(Command(["pytest", f"--pml-contract={','.join(plugin.contracted)}", *rest]))
    return MemoryLoader(
        description=f"{plugin.name} alone: {plugin.project['description']}",
        deps=deps([*BASE, plugin.name, *plugin.needs_for_tests]),
        commands=[*commands, Command(["pml", "plugins", "list"])],
    )


@impl
def tox_add_core_config(core_conf: ConfigSet, state: State) -> None:
    """Add the lanes of single plugins to those that run when none is named."""
    for plugin in PLUGINS:
        if plugin.has_code:
            for end in (OLDEST, NEWEST):
                lane = end.format(plugin.factor)
                core_conf["env_list"].envs.append(lane)
                state.conf.memory_seed_loaders[lane].append(alone(plugin, lane, state.conf.pos_args(None) or ()))
