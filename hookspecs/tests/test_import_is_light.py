"""Every plugin imports the hook specs, and so does every command: they may cost next to nothing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

UNWANTED = {
    "anyio",
    "asyncio",
    "mcp",
    "mcp_types",
    "pml_core",
    "pydantic",
    "pydantic_settings",
    "starlette",
    "stevedore",
    "structlog",
}
SCRIPT = """
import importlib, json, sys
importlib.import_module(sys.argv[1])
print(json.dumps(sorted(sys.modules)))
"""


def imported_by(module: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, module], capture_output=True, check=True, encoding="utf-8", timeout=60
    )
    return set(json.loads(done.stdout))


def test_the_package_imports_nothing_heavy() -> None:
    imported = imported_by("pml_hookspecs")
    assert "pml_hookspecs.transport" in imported
    assert imported & UNWANTED == set()


@pytest.mark.parametrize(
    "part",
    ["executor", "exposure_mode", "gateway", "raw", "services", "settings", "store", "tracer", "transport", "types"],
)
def test_each_part_can_be_imported_first(part: str) -> None:
    assert f"pml_hookspecs.{part}" in imported_by(f"pml_hookspecs.{part}")
