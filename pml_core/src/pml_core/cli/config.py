"""``pml config``: what the configuration came to, and why."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, replace
from pathlib import Path
from typing import Any

from pml_clients import secret_values
from pml_clients.secret_values import SECRET_NAME
from pml_core.errors import OperatorError
from pml_core.settings.config import Config, EndpointSettings, GatewaySettings, ServerSettings
from pml_core.settings.config_files import dig
from pml_core.settings.doubts import BY_INTENT, of_mode
from pml_core.settings.redaction import MASK
from pml_kit.terminal import print_columns, print_json

from .setup.config_change import add_options
from .sources import add_sources, load_as_told, settings_types

ONLY_FOR_CHANGES = ("to", "user", "project", "print", "dry_run", "yes", "answers", "answer")


def add(subcommands: Any) -> None:
    """Add the commands."""
    parser: argparse.ArgumentParser = subcommands.add_parser(
        "config",
        help="show, explain and check the configuration",
        description=(
            "Without a verb: every value and its source. With --preset or --wizard: change the configuration file; "
            "what changes is shown, and the file as it was is kept beside it."
        ),
    )
    add_sources(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    task = parser.add_mutually_exclusive_group()
    task.add_argument("--preset", metavar="NAME", help="set the values of a preset; pml config presets lists them")
    task.add_argument("--wizard", action="store_true", help="answer some questions, and set what they come to")
    parser.add_argument("--answers", type=Path, metavar="FILE", help="with --wizard: answers as TOML, YAML or JSON")
    parser.add_argument(
        "--answer", action="append", default=[], metavar="QUESTION=ANSWER", help="with --wizard: one answer"
    )
    add_options(parser)
    parser.set_defaults(run=run)
    verbs = parser.add_subparsers(metavar="VERB")
    for verb, function, text in (
        ("explain", run_explain, "description, type, default and every source of one setting or table"),
        ("schema", run_schema, "JSON Schema of the configuration of this installation"),
        ("check", run_check, "validate without starting anything; exit status 1 if anything is wrong"),
        ("presets", run_presets, "the presets there are, and what each sets"),
    ):
        one: argparse.ArgumentParser = verbs.add_parser(verb, help=text, description=text)
        if verb == "explain":
            one.add_argument("path", help="such as gateway.tools_exposure, plugins.hybrid or servers.git")
        add_sources(one, below=True)
        one.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="one JSON document")
        if verb == "check":
            one.add_argument("--strict", action="store_true", default=False, help="exit status 1 for warnings, too")
        one.set_defaults(run=function)


def run(arguments: argparse.Namespace) -> int:
    """Print every value that is set or has a default, with its source; or change the file as asked."""
    if arguments.wizard:
        from .setup import wizard

        return wizard.run(arguments)
    if arguments.preset is not None:
        return _run_preset(arguments)
    if misplaced := [f"--{name.replace('_', '-')}" for name in ONLY_FOR_CHANGES if getattr(arguments, name)]:
        raise OperatorError(f"{misplaced[0]}: means something only with --preset or --wizard", "Add one of them.")
    config = load_as_told(arguments)
    rows = effective(config, settings_types(config) if config.tables else {})
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
    return [(".".join(path), value, config.says(path) or "default") for path, value in found]


def _secret_fields(settings_type: type[Any] | None) -> set[str]:
    return set() if settings_type is None else {f.name for f in fields(settings_type) if f.metadata.get("secret")}


def _masked(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _masked(k, v) for k, v in value.items()}
    return MASK if isinstance(value, str) and SECRET_NAME.search(name) and not value.startswith("${") else value


def run_explain(arguments: argparse.Namespace) -> int:
    """Print what a setting means and where its value comes from."""
    config = load_as_told(arguments)
    section, _, rest = arguments.path.partition(".")
    owner, name = _owner(config, section, rest)
    if owner is None:
        raise OperatorError(f"{arguments.path}: no such setting", "See pml config for the paths there are.")
    about = [_about(config, f, _path(section, rest, name, f.name)) for f in fields(owner) if name in ("", f.name)]
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


def _owner(config: Config, section: str, rest: str) -> tuple[type[Any] | None, str]:
    """The settings class that ``section.rest`` speaks of, and the field in it (``""`` for all)."""
    if section == "gateway":
        return GatewaySettings, rest
    table, _, name = rest.partition(".")
    if section in ("servers", "endpoints"):
        return ServerSettings if section == "servers" else EndpointSettings, name
    return (settings_types(config).get(table), name) if section == "plugins" else (None, "")


def _path(section: str, rest: str, name: str, field: str) -> str:
    base = rest.removesuffix(name).rstrip(".")
    return ".".join(part for part in (section, base, field) if part)


def _about(config: Config, field: Any, path: str) -> dict[str, Any]:
    values = {p: v for p, v, _ in effective(config, settings_types(config))}
    default = field.default
    if default is MISSING:
        default = None if field.default_factory is MISSING else field.default_factory()
    layers = [(s.label, dig(s.tree, path.split("."))) for s in config.sources]
    return {
        "path": path,
        "value": values.get(path, default),
        "source": config.says(path) or "default",
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


def run_schema(arguments: argparse.Namespace) -> int:
    """Print the JSON Schema."""
    from pml_core.settings.validation import json_schema

    try:
        config = load_as_told(arguments)
    except OperatorError:  # whoever has mistakes in it needs the schema most
        config = Config(GatewaySettings(), {}, {}, ())
    print_json(json_schema(settings_types(config)))
    return 0


def run_check(arguments: argparse.Namespace) -> int:
    """Validate everything; 1 and one line per problem when something does not fit."""
    import asyncio

    from pml_core.admin.check import problems
    from pml_core.admin.live import unmatched_names
    from pml_core.plugins.named_tools import is_said
    from pml_core.settings.doubts import doubts

    found = problems(lambda: load_as_told(arguments), settings_types)
    doubtful = []
    if not found:
        config = load_as_told(arguments)
        types = settings_types(config)
        doubtful = [*config.refused, *_dropped(config, types), *doubts(config, types)]
        names = asyncio.run(unmatched_names(config))
        doubtful += [line for line in names if not is_said(line, doubtful)]
    if arguments.json:
        print_json({"ok": not found, "problems": found, "warnings": doubtful})
    elif found:
        print("\n".join(found))
    else:
        print("The configuration fits.")
        for line in doubtful:
            print(f"Warning: {line}")
    return 1 if found or (doubtful and arguments.strict) else 0


def _dropped(config: Config, types: Mapping[str, type[Any]]) -> list[str]:
    return [line for name in config.tables if name in types for line in config.dropped(name, types[name])]


def run_presets(arguments: argparse.Namespace) -> int:
    """Print the presets."""
    from .setup import presets

    found = list(presets.known(Path.cwd()).values())
    if arguments.json:
        print_json([preset.as_json() for preset in found])
        return 0
    rows = [(p.name, ", ".join(p.aliases) or "-", p.mode, p.about) for p in found]
    print_columns(rows, ("PRESET", "ALSO", "MODE", "FOR"))
    return 0


def _run_preset(arguments: argparse.Namespace) -> int:
    """Make the configuration say what a preset does."""
    from .setup import config_change, presets

    if arguments.answers is not None or arguments.answer:
        raise OperatorError("--answers: means something only with --wizard", "Leave it out.")
    preset = presets.named(arguments.preset, Path.cwd())
    change = config_change.make(config_change.target(arguments), preset.values)
    if preset.mode in BY_INTENT:
        config = load_as_told(arguments)
        notes = of_mode(config, settings_types(config), preset.mode)
        change = replace(change, notes=(*change.notes, *notes))
    return config_change.apply(change, arguments, {"preset": preset.name})
