"""Files and functions stay small enough to be read in one go."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

LONGEST_FILE = 400
LONGEST_FUNCTION = 50
LONGEST_TRANSPORT = 150
"""Whoever writes one says where bytes come from and go to; the rest is `pml_kit.jsonrpc`."""
TRANSPORTS = (
    "docs/plugins/examples/drivers/unix.py",
    "plugins/pml-dev/src/pml_dev/templates/transport/src/transport.py.tmpl",
)


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its decorators and its docstring."""
    docstring = ast.get_docstring(node, clean=False)
    told = node.body[0] if docstring is not None else None
    last = node.end_lineno or node.lineno
    return last - node.lineno + 1 - (0 if told is None else (told.end_lineno or told.lineno) - told.lineno + 1)


def test_no_source_file_is_long(sources: list[Path], root: Path) -> None:
    sizes = {path.relative_to(root).as_posix(): len(path.read_text(encoding="utf-8").splitlines()) for path in sources}
    assert sizes
    assert {path: size for path, size in sizes.items() if size > LONGEST_FILE} == {}


def test_no_function_is_long(sources: list[Path], root: Path) -> None:
    long = {}
    for path in sources:
        for node in functions(ast.parse(path.read_text(encoding="utf-8"))):
            if (size := length(node)) > LONGEST_FUNCTION:
                long[f"{path.relative_to(root).as_posix()}:{node.lineno} {node.name}"] = size
    assert long == {}


def test_a_new_transport_is_short(root: Path) -> None:
    sizes = {place: len((root / place).read_text(encoding="utf-8").splitlines()) for place in TRANSPORTS}
    assert {place: size for place, size in sizes.items() if size > LONGEST_TRANSPORT} == {}
