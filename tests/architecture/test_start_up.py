"""What the commands that only look, and a plugin that is only looked at, do not import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Distribution

HEAVY = ("mcp", "mcp_types", "rich", "starlette")
RUN_MAIN = """
import json, sys
from pml_core.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
IMPORT = """
import importlib, json, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def modules(home: Path, script: str, arguments: Sequence[str]) -> set[str]:
    """Top-level modules that ``script`` leaves imported."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PML_")} | {"PML_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        check=True,
        cwd=home,
        encoding="utf-8",
        env=env,
        timeout=300,
    )
    imported: list[str] = json.loads(done.stderr.splitlines()[-1])
    return {name.partition(".")[0] for name in imported}


@pytest.mark.parametrize(
    ("command", "unwanted"),
    [
        ("--help", HEAVY),
        ("--version", HEAVY),
        ("serve --help", (*HEAVY, "pydantic", "stevedore", "structlog", "yaml")),
        ("config", (*HEAVY, "pydantic", "stevedore", "structlog")),
        ("plugins list", (*HEAVY, "pydantic", "stevedore", "structlog")),
    ],
)
def test_commands_that_only_look_import_little(tmp_path: Path, command: str, unwanted: Sequence[str]) -> None:
    imported = modules(tmp_path, RUN_MAIN, command.split())
    assert "pml_core" in imported
    assert imported & set(unwanted) == set()


def test_listing_imports_no_plugin_but_the_one_that_lists(tmp_path: Path, plugins: list[Distribution]) -> None:
    registering = {one.module for one in plugins if not one.is_library} - {"pml_admin"}
    assert modules(tmp_path, RUN_MAIN, ["plugins", "list"]) & registering == set()


def test_importing_a_plugin_is_cheap_and_brings_neither_the_core_nor_another_plugin(
    tmp_path: Path, plugin: Distribution, plugins: list[Distribution]
) -> None:
    # Defaults are names of drivers, which nobody imports.
    groups = {group: of for group, of in plugin.project.get("entry-points", {}).items() if group != "pml.defaults"}
    targets = {target.partition(":")[0] for names in groups.values() for target in names.values()} or {plugin.module}
    imported = modules(tmp_path, IMPORT, sorted(targets))
    unwanted = {*HEAVY, "pydantic", "structlog", "pml_core", "pml_testing"}
    others = {other.module for other in plugins if other != plugin and not other.is_library}
    assert imported & (unwanted | others) == set()
