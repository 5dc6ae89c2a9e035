"""``reference/settings.md``: every field of the configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from typing import Any

from made import Plugin, cell, distributions

from pml_settings.config import EndpointSettings, GatewaySettings, ServerSettings

INTRODUCTION = """\
# Settings

What can be said in `pml.toml` or `pml.yaml`, in `PML_…` environment variables and with `--set PATH=VALUE`. First wins:
`--set`, `--mode`, environment, the file given with `--config`, the user's. A project's file counts as it was when
`pml trust` was said: it adds and narrows, and never wins. `pml config` shows every value and where it
comes from, `pml config explain PATH` what it means, `pml config check` what is wrong.

An environment variable is the path in capitals with two underscores between its parts:
`PML_GATEWAY__TOOLS_EXPOSURE=hybrid`. In the tables of servers and plugins, `${NAME}` in a text stands for the
environment variable of that name.
"""


def settings() -> str:
    """The page."""
    parts = [
        INTRODUCTION,
        *_table("[gateway]", GatewaySettings, "The gateway as a whole."),
        *_table("[servers.<name>]", ServerSettings, "One server. Keys not named here are options of its transport."),
        *_table(
            "[endpoints.<name>]", EndpointSettings, "One more way in, over HTTP at `/mcp/<name>`, with its own mode."
        ),
        "## Plugins\n",
        "Which distribution brings which plugin, and what it is for: [plugin catalogue](plugins.md).\n",
    ]
    for name, owner, kinds, type_ in _tables():
        parts += _table(f"[plugins.{name}]", type_, f"{' and '.join(kinds)} of `{owner}`.", level=3)
    return "\n".join(parts)


def _tables() -> Iterator[tuple[str, str, list[str], type[Any]]]:
    """Name, distribution, kinds and settings of each plugin that has any, by name."""
    found: dict[str, tuple[str, list[str], type[Any]]] = {}
    for distribution in distributions():
        for plugin in distribution.plugins:
            if (type_ := _settings_of(plugin)) is None:
                continue
            kind = plugin.kind[0].upper() + plugin.kind[1:] if plugin.name not in found else plugin.kind
            found.setdefault(plugin.name, (distribution.name, [], type_))[1].append(kind)
    for name in sorted(found):
        yield (name, *found[name])


def _settings_of(plugin: Plugin) -> type[Any] | None:
    found: type[Any] | None = getattr(plugin.load(), "settings_type", None)
    return found


def _table(title: str, type_: type[Any], about: str, level: int = 2) -> list[str]:
    rows = [_row(one, type_) for one in fields(type_)]
    head = ["| setting | type | default | meaning |", "|---|---|---|---|"]
    return [f"{'#' * level} `{title}`\n", f"{about}\n", *head, *rows, ""] if rows else []


def _row(one: Field[Any], type_: type[Any]) -> str:
    about = cell(str(one.metadata.get("description", "")))
    bounds = (("at least", one.metadata.get("ge")), ("at most", one.metadata.get("le")))
    limits = ", ".join(f"{word} {_number(bound)}" for word, bound in bounds if bound is not None)
    more = (f" ({limits})" if limits else "") + (" Secret: never shown." if one.metadata.get("secret") else "")
    return f"| `{one.name}` | {_type(one)} | {_default(one)} | {about}{more} |"


def _number(bound: float) -> str:
    return str(int(bound)) if bound == int(bound) else str(bound)


def _type(one: Field[Any]) -> str:
    text = one.type if isinstance(one.type, str) else getattr(one.type, "__name__", str(one.type))
    text = re.sub(r"tuple\[(.+), \.\.\.\]", r"list[\1]", text).replace("pml_hookspecs.", "")
    return f"`{text}`".replace("|", "\\|")


def _default(one: Field[Any]) -> str:
    if one.default is MISSING and one.default_factory is MISSING:
        return "none: must be set"
    value = one.default if one.default is not MISSING else one.default_factory()  # type: ignore[misc]
    if value is None:
        return "not set"
    if isinstance(value, frozenset | set):
        value = sorted(value)
    try:
        return f"`{json.dumps(value, ensure_ascii=False)}`".replace("|", "\\|")
    except TypeError:
        return f"`{value!r}`".replace("|", "\\|")
