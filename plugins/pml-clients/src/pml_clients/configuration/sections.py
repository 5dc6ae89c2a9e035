"""Tables at the top of a configuration that are a setting of some plugin: ``[tools]`` for ``plugins.<name>.tools``.

A distribution declares one by an entry point of the group :data:`GROUP`: its name is the table's, and what it loads is
the plugin's name and that of the setting, such as ``("presentation", "tools")``.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from typing import Any

from pml_kit.errors import OperatorError

GROUP = "pml.sections"


def place_of(section: str) -> tuple[str, str] | None:
    """The plugin, and its setting, that a table at the top is; None where no installed plugin has such a table."""
    for point in metadata.entry_points(group=GROUP, name=section):
        plugin, setting = point.load()
        return plugin, setting
    return None


def places() -> dict[str, tuple[str, str]]:
    """All such tables of what is installed, each with its plugin and that one's setting."""
    return {point.name: point.load() for point in metadata.entry_points(group=GROUP)}


def placed(tree: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """``tree`` with such tables where their plugins read them; ``known`` are the names of all other tables.

    Raises:
        OperatorError: Both places say something of one thing.
    """
    made = dict(tree)
    for section in tree.keys() - {*known}:
        place = place_of(section)
        plugins = made.get("plugins", {})
        if place is None or not isinstance(plugins, Mapping) or not isinstance(plugins.get(place[0], {}), Mapping):
            continue  # unknown, or of the wrong shape, which validation says better
        plugin, setting = place
        value, there = made.pop(section), plugins.get(plugin, {}).get(setting)
        if isinstance(value, Mapping) and isinstance(there, Mapping) and not value.keys() & there.keys():
            value = {**there, **value}
        elif there is not None:
            both = f"[{section}] and [plugins.{plugin}.{setting}]"
            raise OperatorError(f"{both} say something of the same; they are one table", "Write it once.")
        made["plugins"] = {**plugins, plugin: {**plugins.get(plugin, {}), setting: value}}
    return made
