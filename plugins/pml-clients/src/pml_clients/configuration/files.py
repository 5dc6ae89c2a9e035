"""What a configuration is read from, and what stands there, not looked at yet."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pml_clients import client_configs
from pml_kit.errors import OperatorError

SECTIONS = ("gateway", "servers", "endpoints", "plugins")

PROJECT_FILES = ("pml.toml", "pml.yaml", "pml.yml")
"""Names of configuration files in a project's folder."""
PRESETS = "config/gateway-presets.yaml"
"""Presets in a project's folder."""

State: TypeAlias = Mapping[Path, "tuple[int, int, int] | None"]
"""What tells that a file has changed; None for one that is not there."""


@dataclass(frozen=True, slots=True)
class Source:
    """Somewhere that settings come from."""

    label: str
    tree: dict[str, Any]
    is_projects: bool = False
    """A trusted project's file: it may add and narrow, never loosen."""


def home() -> Path:
    """The user's PML folder."""
    return Path(os.environ.get("PML_HOME") or Path.home() / ".pml")


def state_of(files: Sequence[Path]) -> State:
    """How the files are right now; any change of one makes a difference."""
    return {path: _state_of(path) for path in files}


def _state_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_file(path: Path) -> tuple[dict[str, Any], bool]:
    """What :func:`parsed` gives of the file at ``path``.

    Raises:
        OperatorError: It cannot be read or parsed.
    """
    return parsed(raw_of(path), path)


def raw_of(path: Path) -> bytes:
    """What stands in a file.

    Raises:
        OperatorError: It cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as exc:
        raise OperatorError(f"{path}: cannot be read: {exc.strerror}", "Give the path of a file that exists.") from exc


def parsed(raw: bytes, path: Path) -> tuple[dict[str, Any], bool]:
    """The tree in ``raw``, which stands at ``path``, and whether it is an MCP client's, which gives servers only.

    Raises:
        OperatorError: It cannot be parsed.
    """
    tree, is_clients = _parsed(raw, path)
    return (tree if is_clients else placed(tree)), is_clients


def placed(tree: dict[str, Any]) -> dict[str, Any]:
    """``tree`` with tables at its top that are settings of plugins where these read them.

    Raises:
        OperatorError: They say what stands there as well.
    """
    if set(tree) <= set(SECTIONS):
        return tree
    from . import sections

    return sections.placed(tree, SECTIONS)


def _parsed(raw: bytes, path: Path) -> tuple[dict[str, Any], bool]:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise OperatorError(f"{path}: is not UTF-8 text (byte {exc.start})") from exc
    if path.suffix in (".yaml", ".yml"):
        return _read_yaml(text, path), False
    if path.suffix == ".json" or text.lstrip().startswith("{"):
        return _read_json(text, path)
    import tomllib

    try:
        return tomllib.loads(text), False
    except tomllib.TOMLDecodeError as exc:
        raise OperatorError(f"{path}: not valid TOML: {exc}", "Correct it first.") from exc


def _read_json(text: str, path: Path) -> tuple[dict[str, Any], bool]:
    try:
        tree: Any = json.loads(text)
    except ValueError:
        tree = None  # a client's file may hold comments, which its own reader knows
    if isinstance(tree, dict) and set(placed(tree)) <= set(SECTIONS) and not client_configs.looks_like(tree):
        return tree, False
    try:
        servers = client_configs.read(text, str(path), project=Path.cwd())
    except client_configs.ClientConfigError as exc:
        raise OperatorError(str(exc)) from exc
    itself = [s.name for s in servers if client_configs.is_gateway(s)]
    notes = [f"{s.name}: {note}" for s in servers for note in s.notes]
    notes += [f"{name}: left out, it starts this gateway again" for name in itself]
    return {"servers": {s.name: s.table() for s in servers if s.name not in itself}, "notes": notes}, True


def _read_yaml(text: str, path: Path) -> dict[str, Any]:
    import yaml

    try:
        tree = yaml.safe_load(text) or {}
    except (yaml.YAMLError, ValueError) as exc:
        from pml_clients.yaml_edit import yaml_problem

        raise OperatorError(f"{path}: not valid YAML: {yaml_problem(exc, text)}", "Correct it first.") from exc
    if not isinstance(tree, dict):
        raise OperatorError(f"{path}: expected a mapping with {', '.join(SECTIONS)}")
    named: dict[str, Any] = _with_text_keys(tree)
    return named


def _with_text_keys(tree: Any) -> Any:
    """YAML has keys of any type; a configuration has names."""
    return {str(k): _with_text_keys(v) for k, v in tree.items()} if isinstance(tree, dict) else tree


def parse_override(text: str) -> dict[str, Any]:
    """``a.b.c=value`` as a tree; the value is TOML, or text when it is not.

    Raises:
        OperatorError: There is no ``=`` or no path.
    """
    import tomllib

    path, equals, value = text.partition("=")
    parts = [part.strip() for part in path.split(".")]
    if not equals or not all(parts):
        raise OperatorError(f"--set {text}: expected PATH=VALUE, such as --set gateway.tools_exposure=hybrid")
    try:
        parsed: Any = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value
    for part in reversed(parts):
        parsed = {part: parsed}
    return placed(parsed)
