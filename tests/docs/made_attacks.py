"""``reference/attacks.md``: every attack that the tests make, by the wall that it tries."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from made import ROOT, cell

FOLDERS = ("hookspecs/tests", "pml_core/tests", "plugins/*/tests", "tests")
INTRODUCTION = """\
# Attacks

What the tests try, and the wall that has to hold. [Security](../guides/security.md) says what each wall stops and what
it does not. Each row is a test marked `attack`; to make all attacks again on your machine, in a checkout:

```sh
.venv/bin/python -m pytest -m attack hookspecs/tests pml_core/tests plugins tests/e2e tests/integration
```
"""


@dataclass(frozen=True, slots=True, order=True)
class Attack:
    """One test that makes an attack."""

    wall: str
    file: str
    line: int
    test: str
    attempt: str


def attacks() -> str:
    """The page."""
    found = sorted(attack for folder in FOLDERS for path in ROOT.glob(f"{folder}/**/test_*.py") for attack in _of(path))
    walls: dict[str, list[Attack]] = {}
    for attack in found:
        walls.setdefault(attack.wall, []).append(attack)
    sections = [line for wall, made in sorted(walls.items()) for line in _section(wall, made)]
    return "\n".join([INTRODUCTION, f"{len(found)} tests, {len(walls)} walls.", "", *sections])


def _section(wall: str, made: list[Attack]) -> Iterator[str]:
    yield from (f"## {wall}", "", "| attempt | test |", "|---|---|")
    for attack in made:
        yield f"| {cell(attack.attempt)} | `{attack.file}::{attack.test}` |"
    yield ""


def _of(path: Path) -> Iterator[Attack]:
    """The attacks of one file; a mark on a class or on the module (``pytestmark``) holds for each test in it."""
    text = path.read_text(encoding="utf-8")
    if "mark.attack(" not in text:
        return
    tree = ast.parse(text)
    assigned = [node.value for node in tree.body if isinstance(node, ast.Assign) and _is_pytestmark(node)]
    yield from _within(tree, path.relative_to(ROOT).as_posix(), _marks(assigned))


def _within(node: ast.Module | ast.ClassDef, file: str, above: list[tuple[str, str]]) -> Iterator[Attack]:
    for child in node.body:
        if isinstance(child, ast.ClassDef):
            yield from _within(child, file, [*above, *_marks(child.decorator_list)])
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and child.name.startswith("test"):
            for wall, attempt in _marks(child.decorator_list) or above[-1:]:
                yield Attack(wall, file, child.lineno, child.name, attempt)


def _is_pytestmark(node: ast.Assign) -> bool:
    return any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets)


def _marks(nodes: list[ast.expr]) -> list[tuple[str, str]]:
    """Wall and attempt of each ``pytest.mark.attack(wall, attempt)`` in some expressions."""
    calls = [call for node in nodes for call in ast.walk(node) if isinstance(call, ast.Call)]
    named = [call for call in calls if ast.unparse(call.func) == "pytest.mark.attack"]
    return [(ast.literal_eval(call.args[0]), ast.literal_eval(call.args[1])) for call in named]
