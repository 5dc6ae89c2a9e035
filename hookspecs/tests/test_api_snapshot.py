"""``api.txt`` is the contract on one page: whoever changes the contract changes that file, and a reviewer sees it.

``python hookspecs/tests/test_api_snapshot.py`` writes it anew. What a change asks for says ``api_changes.py``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from api_lines import exports

import pml_hookspecs

FOLDER = Path(__file__).parents[1]
SNAPSHOT = FOLDER / "api.txt"
PACKAGE = FOLDER / "src" / "pml_hookspecs"


def public(name: str) -> bool:
    """``__init__`` and its kind are part of the contract where a class defines them."""
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__") and name != "__slots__")


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    returns = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    kind = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    return f"{kind}({ast.unparse(node.args)}){returns}"


def of_class(node: ast.ClassDef, path: str) -> Iterator[str]:
    words = [f"{one.arg}={ast.unparse(one.value)}" for one in node.keywords]
    given = [*map(ast.unparse, node.bases), *words]
    about = [f"({', '.join(given)})" if given else ""]
    about += [f" @{ast.unparse(decorator)}" for decorator in node.decorator_list]
    yield f"{path}: class{''.join(about)}"
    for member in node.body:
        yield from of_statement(member, path)


def of_statement(node: ast.stmt, path: str) -> Iterator[str]:
    """One line for each public name that ``node`` defines, and for each member of it."""
    match node:
        case ast.ClassDef(name=name) if public(name):
            yield from of_class(node, f"{path}.{name}")
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if public(name):
            marks = "".join(f" @{ast.unparse(decorator)}" for decorator in node.decorator_list)
            yield f"{path}.{name}{marks} {signature(node)}"
        case ast.AnnAssign(target=ast.Name(id=name)) if public(name):
            value = "" if node.value is None else f" = {ast.unparse(node.value)}"
            yield f"{path}.{name}: {ast.unparse(node.annotation)}{value}"
        case ast.Assign(targets=[ast.Name(id=name)]) if public(name) and name != "__all__":
            yield f"{path}.{name} = {ast.unparse(node.value)}"
        case ast.Assign(targets=[ast.Attribute(attr="__deprecated__") as target]):
            yield f"{path}.{ast.unparse(target)} = {ast.unparse(node.value)}"


def defined_by(node: ast.stmt) -> str:
    """The name that a statement defines; ``""`` for none."""
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return ""


def snapshot() -> str:
    """What the package exports stands without its module."""
    lines = []
    for file in sorted(PACKAGE.glob("*.py")):
        module = "pml_hookspecs" if file.stem == "__init__" else f"pml_hookspecs.{file.stem}"
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            lines += of_statement(node, "pml_hookspecs" if defined_by(node) in pml_hookspecs.__all__ else module)
    return "\n".join(lines) + "\n"


def test_api_txt_is_current() -> None:
    assert SNAPSHOT.read_text(encoding="utf-8") == snapshot(), (
        "the contract changed; if that is meant, run: python hookspecs/tests/test_api_snapshot.py"
    )


def test_what_is_deprecated_shows() -> None:
    source = "class Store:\n    def find(self): ...\nStore.find.__deprecated__ = 'use get'"
    assert [line for node in ast.parse(source).body for line in of_statement(node, "pml_hookspecs.store")] == [
        "pml_hookspecs.store.Store: class",
        "pml_hookspecs.store.Store.find (self)",
        "pml_hookspecs.store.Store.find.__deprecated__ = 'use get'",
    ]


def test_what_the_package_exports_is_there_sorted_and_told_once() -> None:
    names = pml_hookspecs.__all__
    assert len(names) == len(set(names))
    assert [name for name in names if not hasattr(pml_hookspecs, name)] == []
    assert exports(SNAPSHOT.read_text(encoding="utf-8")) == {*names}


if __name__ == "__main__":
    SNAPSHOT.write_text(snapshot(), encoding="utf-8")
