"""What must be written down is written down: when hooks are called, what error codes mean, how tests are run."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pml_hookspecs.hooks import Hooks

HOOKS = [function for name, function in inspect.getmembers(Hooks, inspect.isfunction) if name.startswith("pml_")]
MOMENTS = re.compile(r"[Cc]alled once|[Cc]alled while|[Ee]ntered after|``pml plugins doctor``")
CODE = re.compile(r"[a-z_]+\.[a-z_]+")
ROW = re.compile(r"^\| `([a-z_]+\.[a-z_]+)` \| (.+?) \| (.+?) \|$", re.MULTILINE)
FAILING = {"Failure", "fault", "failed", "InputsError"}
"""Functions whose first text that looks like a code is one, be it written there or the value of a constant."""
Constants = Mapping[tuple[str, str], str]
"""Texts by the last part of their module's name and their own."""


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.__name__)
def test_every_hook_says_when_it_is_called(hook: object) -> None:
    told = inspect.getdoc(hook) or ""
    assert MOMENTS.search(told), told


def constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Name and value of texts that a module gives names to."""
    for node in tree.body:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target = node.targets[0]
        pairs = (
            zip(target.elts, node.value.elts, strict=False)
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            else [(target, node.value)]
        )
        for name, value in pairs:
            if isinstance(name, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield name.id, value.value


def texts_of(node: ast.expr, module: str, origins: Mapping[str, str], known: Constants) -> list[str]:
    """The texts that an argument of a call may stand for; none when it is no text, or only known at run time."""
    found: str | None = None
    if isinstance(node, ast.IfExp):
        return [text for branch in (node.body, node.orelse) for text in texts_of(branch, module, origins, known)]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        found = node.value
    elif isinstance(node, ast.Name):
        found = known.get((origins.get(node.id, module), node.id))
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        found = known.get((node.value.id, node.attr))
    return [] if found is None else [found]


def codes(tree: ast.Module, module: str, known: Constants) -> Iterator[str]:
    """Codes that the calls in a module fail with."""
    origins = {
        name.asname or name.name: (node.module or "").rpartition(".")[2]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if called not in FAILING:
            continue
        given = (texts_of(one, module, origins, known) for one in [*node.args, *(word.value for word in node.keywords)])
        yield from (text for text in next((texts for texts in given if texts), []) if CODE.fullmatch(text))


@pytest.fixture(scope="module")
def used(sources: list[Path]) -> dict[str, str]:
    """Every code that the gateway or a plugin fails with, and one file that does."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sources if "pml_testing" not in path.parts}
    known = {(path.stem, name): value for path, tree in trees.items() for name, value in constants(tree)}
    return {code: path.name for path, tree in trees.items() for code in codes(tree, path.stem, known)}


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


SOMEBODY_ELSES = re.compile(
    r"(?:(?:pip3?|pipx|tool) (?:install|run|inject|upgrade)|uv add|uvx)(?: -\S+)* ['\"]?pml(?![\w./-])"
    r"|(?<![\w-])pml\[[a-z]"
    r"|pypi\.org/p(?:roject)?/pml(?![\w-])"
)
TOLD = {".md", ".py", ".toml", ".tmpl", ".yaml", ".yml", ".ini", ".sh", ".tape", ""}
"""Ends of the names of files that say something to people."""


def test_nobody_is_told_to_install_what_is_somebody_elses(root: Path) -> None:
    """On the index, ``pml`` is an unrelated library; ours is ``pml-gateway``, with its extras."""
    wrong = ("pip install pml", "uv pip install -U 'pml[team]'", "uvx pml serve", "With `pml[code]`, code runs")
    right = ("pip install pml-gateway", "uvx --from pml-gateway pml serve", "pml-gateway[team]", "pml-testing[replay]")
    assert [text for text in (*wrong, *right) if SOMEBODY_ELSES.search(text)] == [*wrong]
    # What is made from the code says what the code says, and is held to it elsewhere.
    made, here = root / "docs" / "reference", Path(__file__)
    files = [
        path
        for path in _tracked(root)
        if path.suffix in TOLD and made not in path.parents and path != here and path.is_file()
    ]
    assert len(files) > 1000
    said = {path: SOMEBODY_ELSES.search(path.read_text(encoding="utf-8")) for path in files}
    assert {path.relative_to(root).as_posix(): found[0] for path, found in said.items() if found} == {}


def _tracked(root: Path) -> Iterator[Path]:
    """Every file of the tree but for what is hidden or was made."""
    for path in root.iterdir():
        if path.name.startswith(".") or path.name in ("__pycache__", "build", "dist", "node_modules"):
            continue
        yield from _tracked(path) if path.is_dir() else [path]
