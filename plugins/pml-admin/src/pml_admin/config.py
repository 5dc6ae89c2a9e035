"""``pml config``: what the configuration came to, and why."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from typing import TYPE_CHECKING, Any

from pml_clients import secret_values
from pml_clients.secret_values import SECRET_NAME
from pml_clients.trees import at
from pml_kit.errors import OperatorError
from pml_kit.system.redaction import MASK
from pml_kit.terminal import print_columns, print_json
from pml_mcp.server_settings import ServerSettings
from pml_settings.config_tables import EndpointSettings, GatewaySettings

if TYPE_CHECKING:
    from pml_settings.config import Config
    from pml_settings.installation import Installation

TABLES: Mapping[str, type[Any]] = {
    "gateway": GatewaySettings,
    "servers": ServerSettings,
    "endpoints": EndpointSettings,
}
"""Those that are no plugin's."""


def run(arguments: argparse.Namespace, installation: Installation) -> int:
    """Print every value that is set or has a default, with its source."""
    config = installation.config
    rows = effective(config, installation.settings_types() if config.tables else {})
    if arguments.json:
        print_json({path: {"value": value, "source": source} for path, value, source in rows})
        return 0
    print_columns([(path, repr(value), source) for path, value, source in rows], ("SETTING", "VALUE", "SOURCE"))
    return 0


def effective(config: Config, types: Mapping[str, type[Any]]) -> list[tuple[str, Any, str]]:
    """``(path, value, source)`` of everything, secrets masked. ``types`` are the settings classes of plugins."""
    found: list[tuple[tuple[str, ...], Any]] = [(("gateway", n), v) for n, v in asdict(config.gateway).items()]
    for server, settings in config.servers.items():
        table = {name: value for name, value in asdict(settings).items() if value not in (None, "", (), {}, [])}
        shown = secret_values.masked({**table, "args": list(settings.args)} if "args" in table else table)
        found += [(("servers", server, name), shown[name]) for name in table]
    for endpoint, about in config.endpoints.items():
        found += [(("endpoints", endpoint, name), value) for name, value in asdict(about).items()]
    for plugin, said in config.tables.items():
        secret = _secret_fields(types.get(plugin))
        found += [(("plugins", plugin, n), MASK if n in secret else _masked(n, v)) for n, v in said.items()]
    return [(".".join(path), value, config.origin(path)) for path, value in found]


def _secret_fields(settings_type: type[Any] | None) -> set[str]:
    return set() if settings_type is None else {f.name for f in fields(settings_type) if f.metadata.get("secret")}


def _masked(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _masked(k, v) for k, v in value.items()}
    return MASK if isinstance(value, str) and SECRET_NAME.search(name) and not value.startswith("${") else value


def run_explain(arguments: argparse.Namespace, installation: Installation) -> int:
    """Print what a setting means and where its value comes from."""
    config = installation.config
    section, _, rest = _full(arguments.path).partition(".")
    owner, name = _owner(installation, section, rest)
    if owner is None:
        raise OperatorError(f"{arguments.path}: no such setting", "See pml config for the paths there are.")
    values = {p: v for p, v, _ in effective(config, installation.settings_types())}
    about = [
        _about(config, values, f, _path(section, rest, name, f.name)) for f in fields(owner) if name in ("", f.name)
    ]
    if not about:
        raise OperatorError(f"{arguments.path}: {owner.__doc__} has no {name!r}", "See pml config schema.")
    if arguments.json:
        print_json(about)
        return 0
    for one in about:
        print(f"{one['path']} = {one['value']!r}  ({one['source']})")
        print(f"    {one['description']}\n    type {one['type']}, default {one['default']!r}")
        for layer in one["layers"]:
            print(f"    {layer['source']}: {layer['value']!r}")
    return 0


def _full(path: str) -> str:
    """A path that begins with a table at the top that is a plugin's, as the plugin has it."""
    section, dot, rest = path.partition(".")
    if section == "plugins" or section in TABLES:
        return path
    from pml_clients.configuration.sections import place_of

    place = place_of(section)
    return path if place is None else f"plugins.{'.'.join(place)}{dot}{rest}"


def _owner(installation: Installation, section: str, rest: str) -> tuple[type[Any] | None, str]:
    """The settings class that ``section.rest`` speaks of, and the field in it (``""`` for all)."""
    if section == "gateway":
        return TABLES[section], rest
    table, _, name = rest.partition(".")
    if section == "plugins":
        return installation.settings_types().get(table), name
    return TABLES.get(section), name


def _path(section: str, rest: str, name: str, field: str) -> str:
    base = rest.removesuffix(name).rstrip(".")
    return ".".join(part for part in (section, base, field) if part)


def _about(config: Config, values: Mapping[str, Any], field: Any, path: str) -> dict[str, Any]:
    default = field.default
    if default is MISSING:
        default = None if field.default_factory is MISSING else field.default_factory()
    layers = [(s.label, at(s.tree, path.split("."))) for s in config.sources]
    return {
        "path": path,
        "value": values.get(path, default),
        "source": config.origin(path),
        "description": field.metadata.get("description", ""),
        "type": str(field.type),
        "default": default,
        "layers": [{"source": s, "value": _masked_layer(field, path, v)} for s, v in layers if v is not None],
    }


def _masked_layer(field: Any, path: str, value: Any) -> Any:
    if field.metadata.get("secret"):
        return MASK
    shown = secret_values.masked({field.name: value}) if path.startswith("servers.") else {field.name: value}
    return _masked(field.name, shown[field.name])


def run_schema(_arguments: argparse.Namespace, installation: Installation) -> int:
    """Print the JSON Schema."""
    from pml_clients.configuration.sections import places
    from pml_settings.validation import json_schema

    print_json(json_schema(installation.settings_types(), places()))
    return 0


def _problems(installation: Installation) -> list[str]:
    """One or more lines for each problem, also where it cannot be read."""
    from pml_settings.problems import problems

    try:
        config = installation.config
    except OperatorError as exc:
        return [str(exc)]
    return problems(config, installation.records(), installation.settings_types())


def run_check(arguments: argparse.Namespace, installation: Installation) -> int:
    """Validate everything; 1 and one line per problem when something does not fit."""
    import asyncio

    from .config_check import warnings

    found = _problems(installation)
    doubtful = [] if found else asyncio.run(warnings(installation))
    if arguments.json:
        print_json({"ok": not found, "problems": found, "warnings": doubtful})
    elif found:
        print("\n".join(found))
    else:
        print("The configuration fits.")
        for line in doubtful:
            print(f"Warning: {line}")
    return 1 if found or (doubtful and arguments.strict) else 0
