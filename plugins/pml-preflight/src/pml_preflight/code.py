"""Code of plans, read and not run: does it parse, which tools does it name, which results does it use."""

from __future__ import annotations

import ast
import builtins
import keyword
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

PYTHON = "python"
GIVEN = frozenset({"tools", "inputs", "ToolError", "asyncio", "json", "__name__", "__file__"})
"""What sandboxes give to Python code without being asked, in one or the other."""
LONGEST = 200_000
"""Longer code is not read [characters]."""


@dataclass(slots=True)
class CodeSummary:
    """What is known of a piece of code."""

    problem: str = ""
    """Why it does not parse, with the line; ``""`` when it does, as far as can be told."""
    checked: str = "nothing"
    """How far: ``parsed``, or ``nothing`` where it is not read here."""
    calls: list[Call] = field(default_factory=list)
    names: frozenset[str] = frozenset()
    """What it reads without having made it: inputs, results, builtins."""
    complete: bool = False
    """Whether :attr:`names` are all, and none of them is defined in the code."""
    reaches: bool = False
    """Whether it may call tools that are not among :attr:`calls`."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool that code names."""

    server: str
    """As an identifier; ``""`` where :attr:`tool` is a whole id."""
    tool: str
    line: int
    arguments: frozenset[str] | None = None
    """Names given by keyword; None when they cannot be told."""


def read(language: str, source: str) -> CodeSummary:
    """Read ``source``, the body of a function; of languages other than Python nothing is known here."""
    return _python(source) if language == PYTHON and len(source) <= LONGEST else CodeSummary(reaches=True)


def _python(source: str) -> CodeSummary:
    try:
        with warnings.catch_warnings():
            # Of odd escapes, say; they are the author's business.
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except SyntaxError as exc:
        at = "" if exc.lineno is None else f" (line {exc.lineno})"
        return CodeSummary(problem=f"{exc.msg}{at}", checked="parsed")
    except (ValueError, RecursionError, MemoryError) as exc:
        return CodeSummary(problem=str(exc) or "nested too deeply", checked="parsed")
    seen = _CallVisitor()
    try:
        seen.visit(tree)
    except RecursionError:
        return CodeSummary(checked="parsed", reaches=True)
    return CodeSummary(
        checked="parsed",
        calls=seen.calls,
        names=frozenset(seen.loaded - seen.stored),
        complete="*" not in seen.stored,
        reaches=seen.reaches,
    )


class _CallVisitor(ast.NodeVisitor):
    """Collects names and calls in Python code."""

    def __init__(self) -> None:
        self.loaded: set[str] = set()
        self.stored: set[str] = set()
        self.calls: list[Call] = []
        self.reaches = False

    def visit_Name(self, node: ast.Name) -> None:
        (self.loaded if isinstance(node.ctx, ast.Load) else self.stored).add(node.id)
        self.reaches = self.reaches or node.id == "tools"

    def visit_arg(self, node: ast.arg) -> None:
        self.stored.add(node.arg)
        self.generic_visit(node)

    def visit_alias(self, node: ast.alias) -> None:
        self.stored.add((node.asname or node.name).partition(".")[0])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.stored.add(node.name)
        self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.stored.add(node.name)
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.stored.add(node.name)
        self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self.stored.add(node.name or "")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if (target := _tool_of(node.func)) is None:
            self.generic_visit(node)
            return
        plain = not node.args and all(word.arg for word in node.keywords)
        given = frozenset(str(word.arg) for word in node.keywords) if plain else None
        if len(node.args) == 1 and not node.keywords and isinstance(node.args[0], ast.Dict):
            keys: list[Any] = [key.value if isinstance(key, ast.Constant) else None for key in node.args[0].keys]
            given = frozenset(keys) if all(isinstance(key, str) for key in keys) else None
        self.calls.append(Call(*target, node.lineno, given))
        for inner in (*node.args, *node.keywords):
            self.visit(inner)


def _tool_of(func: ast.expr) -> tuple[str, str] | None:
    """``tools.server.tool``, ``tools["server:tool"]`` and what is between."""
    names: list[str] = []
    while isinstance(func, (ast.Attribute, ast.Subscript)):
        if isinstance(func, ast.Attribute):
            names.insert(0, func.attr)
        elif isinstance(func.slice, ast.Constant) and isinstance(func.slice.value, str):
            names.insert(0, func.slice.value)
        else:
            return None
        func = func.value
    if not isinstance(func, ast.Name) or func.id != "tools" or not names:
        return None
    if len(names) == 1:
        return ("", names[0]) if ":" in names[0] or "__" in names[0] else None
    return (names[0], names[1]) if len(names) == 2 else None  # noqa: PLR2004 - server and tool


def uses(read_: CodeSummary, ids: Collection[str]) -> Iterator[str]:
    """Ids that the code reads as variables."""
    return (id_ for id_ in ids if id_ in read_.names and id_.isidentifier() and not keyword.iskeyword(id_))


def undefined(read_: CodeSummary, given: Collection[str]) -> list[str]:
    """Names that Python code reads, and nobody gives; empty where that is not sure."""
    known = {*given, *GIVEN, *dir(builtins)}
    return sorted(read_.names - known) if read_.complete else []
