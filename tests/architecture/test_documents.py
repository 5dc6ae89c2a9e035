"""What must be written down is written down: when hooks are called, what error codes mean, how tests are run."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pml_hookspecs import executor, exposure_mode, gateway, transport

HOOKS = [
    function
    for specs in (
        gateway.GatewayHooks,
        exposure_mode.ExposureHooks,
        executor.ExecutorHooks,
        transport.TransportHooks,
    )
    for name, function in inspect.getmembers(specs, inspect.isfunction)
    if name.startswith("pml_")
]
MOMENTS = re.compile(r"[Cc]alled once|[Cc]alled while|[Ee]ntered after|``pml plugins doctor``")
CODE = re.compile(r"[a-z]+\.[a-z_]+")
ROW = re.compile(r"^\| `([a-z]+\.[a-z_]+)` \| (.+?) \| (.+?) \|$", re.MULTILINE)
FAILING = {"Failure", "fault"}
"""Functions whose first text that looks like a code is one."""


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.__name__)
def test_every_hook_says_when_it_is_called(hook: object) -> None:
    told = inspect.getdoc(hook) or ""
    assert MOMENTS.search(told), told


def codes(tree: ast.AST) -> Iterator[str]:
    """Codes that the calls in ``tree`` fail with."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if called not in FAILING:
            continue
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        texts = [one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        yield from (text for text in texts[:1] if CODE.fullmatch(text))


@pytest.fixture(scope="module")
def used(sources: list[Path]) -> dict[str, str]:
    """Every code that the gateway or a plugin fails with, and one file that does."""
    told = [path for path in sources if "pml_testing" not in path.parts]
    return {code: path.name for path in told for code in codes(ast.parse(path.read_text(encoding="utf-8")))}


@pytest.fixture(scope="module")
def documented(root: Path) -> list[str]:
    text = (root / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    return [found[1] for found in ROW.finditer(text)]


def test_every_error_code_is_explained(used: dict[str, str], documented: list[str]) -> None:
    assert used
    assert {code: where for code, where in used.items() if code not in documented} == {}


def test_no_error_code_is_explained_that_nobody_uses(used: dict[str, str], documented: list[str]) -> None:
    assert [code for code in documented if code not in used] == []


def test_error_codes_are_explained_once_and_in_order(documented: list[str]) -> None:
    assert documented == sorted(set(documented))


def test_the_readme_shows_the_test_command_that_ci_runs(root: Path) -> None:
    readme = (root / "README.md").read_text(encoding="utf-8")
    assert re.search(r"^<!-- command: test -->\n+```(?:sh|bash|console)?\n(?:.+\n)+```$", readme, re.MULTILINE)
