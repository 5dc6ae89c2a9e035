"""Presets: named sets of values for the configuration."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from pml_clients.trees import KeyPath, flat
from pml_core.errors import OperatorError
from pml_core.settings import trust
from pml_core.settings.config_files import PRESETS, home, parsed, raw_of

FILE = "gateway-presets.yaml"
ALIASES: Mapping[str, str] = {"migration": "full_proxy", "balanced": "hybrid_balanced", "advanced": "meta_only"}
"""Other names of presets."""
ABOUT: Mapping[str, str] = {
    "meta_only": "the meta-tools: agents that search and plan, production",
    "hybrid_balanced": "the meta-tools and the tools that clearly fit: everyday work",
    "hybrid_permissive": "the meta-tools and more tools: development, debugging",
    "full_proxy": "every tool of every server: the first weeks, clients that cannot change",
}
CONTEXT: Mapping[str, str] = {
    "meta_only": "~500",
    "hybrid_balanced": "~3,000-5,000",
    "hybrid_permissive": "~8,000-10,000",
    "full_proxy": "all: ~44,500 for 687 tools",
}
"""Targets [tokens]; ``pml tokens`` measures them."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A named set of values."""

    name: str
    values: Mapping[KeyPath, Any]
    """By path in a configuration: ``("plugins", "hybrid", "semantic_threshold")``."""
    source: str
    """The file that it stands in; ``"pml"`` for those that come with it."""

    @property
    def aliases(self) -> list[str]:
        """Its other names."""
        return [alias for alias, name in ALIASES.items() if name == self.name]

    @property
    def mode(self) -> str:
        """The exposure mode; ``""`` when it sets none."""
        return str(self.values.get(("gateway", "tools_exposure"), ""))

    @property
    def about(self) -> str:
        """Whom it is for, or for presets of the user's what it sets."""
        if self.source == "pml":
            return ABOUT.get(self.name, "")
        return ", ".join(f"{path[-1]}={value!r}" for path, value in self.values.items())

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "name": self.name,
            "aliases": self.aliases,
            "mode": self.mode,
            "about": self.about,
            "context_tokens": CONTEXT.get(self.name, "") if self.source == "pml" else "",
            "source": self.source,
            "values": {".".join(path): value for path, value in self.values.items()},
        }


def known(project: Path) -> dict[str, Preset]:
    """Every preset by name: those that come with PML, then the user's, then the project's if they are trusted.

    Raises:
        OperatorError: A file of presets cannot be read, or is not one.
    """
    with resources.as_file(resources.files(__package__) / FILE) as own:
        found = _in_file(own, "pml")
    if (path := home() / FILE).is_file():
        found.update(_in_file(path, str(path)))
    if (path := project / PRESETS).is_file() and (raw := trust.raw_if_trusted(path)) is not None:
        found.update(_in_tree(parsed(raw, path)[0], path, str(path)))
    return found


def named(name: str, project: Path) -> Preset:
    """The preset meant, by its name or another one.

    Raises:
        OperatorError: There is none.
    """
    presets = known(project)
    wanted = name if name in presets else ALIASES.get(name, name)
    if wanted in presets:
        return presets[wanted]
    names = [*presets, *ALIASES]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(names)}."
    raise OperatorError(f"--preset {name}: there is no such preset", f"{hint} pml config presets shows what each sets.")


def _in_file(path: Path, source: str) -> dict[str, Preset]:
    return _in_tree(parsed(raw_of(path), path)[0], path, source)


def _in_tree(tree: Mapping[str, Any], path: Path, source: str) -> dict[str, Preset]:
    presets = {}
    for name, said in tree.items():
        if not isinstance(said, Mapping) or not said:
            remedy = "Give it tools_exposure, or a mode's table."
            raise OperatorError(f"{path}: preset {name!r} is not a mapping", remedy)
        presets[name] = Preset(name, {_path(keys): value for keys, value in flat(said).items()}, source)
    return presets


def _path(keys: KeyPath) -> KeyPath:
    """Where in a configuration a key of a preset belongs: what has a table of its own is a plugin's."""
    return ("gateway", *keys) if len(keys) == 1 else ("plugins", *keys)
