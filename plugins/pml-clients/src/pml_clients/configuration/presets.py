"""Presets: named sets of values for the configuration."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pml_clients.trees import KeyPath, flat
from pml_kit.errors import OperatorError

from . import trust
from .files import PRESETS, home, parsed, raw_of
from .preset_files import offered

FILE = "gateway-presets.yaml"


@dataclass(frozen=True, slots=True)
class Preset:
    """A named set of values."""

    name: str
    values: Mapping[KeyPath, Any]
    """By path in a configuration: ``("plugins", "hybrid", "semantic_threshold")``."""
    source: str
    """The file that it stands in; ``"pml"`` for those that plugins offer."""

    aliases: tuple[str, ...] = ()
    """Its other names."""
    about: str = ""
    """Whom it is for, or for presets of the user's what it sets."""
    context_tokens: str = ""
    """What a client's list is to come to; ``pml tokens`` measures it."""

    @property
    def mode(self) -> str:
        """The exposure mode; ``""`` when it sets none."""
        return str(self.values.get(("gateway", "tools_exposure"), ""))

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "name": self.name,
            "aliases": list(self.aliases),
            "mode": self.mode,
            "about": self.about,
            "context_tokens": self.context_tokens,
            "source": self.source,
            "values": {".".join(path): value for path, value in self.values.items()},
        }


def known(project: Path) -> dict[str, Preset]:
    """Every preset by name: those that plugins offer, then the user's, then the project's if they are trusted.

    Raises:
        OperatorError: A file of presets cannot be read, or is not one.
    """
    found = {
        name: Preset(
            name,
            _values(table["values"]),
            "pml",
            tuple(table.get("aliases", ())),
            table.get("about", ""),
            table.get("context_tokens", ""),
        )
        for name, table in offered("presets").items()
    }
    if (path := home() / FILE).is_file():
        found.update(_in_tree(parsed(raw_of(path), path)[0], path, found))
    if (path := project / PRESETS).is_file() and (raw := trust.raw_if_trusted(path)) is not None:
        found.update(_in_tree(parsed(raw, path)[0], path, found))
    return found


def named(name: str, project: Path) -> Preset:
    """The preset meant, by its name or another one.

    Raises:
        OperatorError: There is none.
    """
    presets = known(project)
    aliases = {alias: preset for preset in presets.values() for alias in preset.aliases}
    if (found := presets.get(name) or aliases.get(name)) is not None:
        return found
    names = [*presets, *aliases]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(names)}."
    raise OperatorError(f"--preset {name}: there is no such preset", f"{hint} pml config presets shows what each sets.")


def _in_tree(tree: Mapping[str, Any], path: Path, before: Mapping[str, Preset]) -> dict[str, Preset]:
    """Those of a file, which keep the other names of what they take the place of."""
    presets = {}
    for name, said in tree.items():
        if not isinstance(said, Mapping) or not said:
            remedy = "Give it tools_exposure, or a mode's table."
            raise OperatorError(f"{path}: preset {name!r} is not a mapping", remedy)
        values = _values(said)
        about = ", ".join(f"{keys[-1]}={value!r}" for keys, value in values.items())
        presets[name] = Preset(name, values, str(path), before[name].aliases if name in before else (), about)
    return presets


def _values(said: Mapping[str, Any]) -> dict[KeyPath, Any]:
    """Where in a configuration each value of a preset belongs: what has a table of its own is a plugin's."""
    return {("gateway" if len(keys) == 1 else "plugins", *keys): value for keys, value in flat(said).items()}
