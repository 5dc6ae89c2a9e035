"""Where the literals of a piece of code stand: what a person would change to use it for something else.

Only those whose place can hold any expression, and only where that is certain: what is left out makes two pieces of
code different, what is taken wrongly would make one that does not run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from .literal import NONE, Literal, LiteralScan, usable
from .script import of_script

MOST = 100
"""Literals; of code with more, none are told."""
INPUTS = "inputs"
"""The variable that holds all inputs, in every language."""


def find(language: str, source: str) -> LiteralScan:
    """The literals of the body of a function; none when they cannot be told from the rest for certain."""
    if language == "python":
        found = _of_python(source)
    elif language in ("typescript", "javascript"):
        found = of_script(source)
    else:
        return NONE
    return NONE if INPUTS in found.variables or len(found.literals) > MOST else found


def _of_python(source: str) -> LiteralScan:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return NONE
    lines = source.split("\n")
    if "\r" in source or "\f" in source:
        return NONE
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)

    def place(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode("utf-8", "surrogatepass")[:column].decode())

    try:
        places = [
            Literal(place(n.lineno, n.col_offset), place(n.end_lineno, n.end_col_offset), value, name, name in own)
            for n, value, name, own in _constants(tree)
            if usable(value) and n.end_lineno is not None and n.end_col_offset is not None
        ]
    except (RecursionError, UnicodeDecodeError):
        return NONE
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    names |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    names |= {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}
    return LiteralScan(tuple(sorted(places, key=lambda one: one.start)), frozenset(names))


def _constants(tree: ast.Module) -> Iterator[tuple[ast.expr, str | float | bool, str, frozenset[str]]]:
    """Each with its value, what it is for, and what the body itself assigns in that statement."""
    for statement in tree.body:
        own = frozenset(
            target.id
            for target in (statement.targets if isinstance(statement, ast.Assign) else ())
            if isinstance(target, ast.Name)
        )
        for node, value, name in _below(statement, ""):
            yield node, value, name, own


def _below(node: ast.AST, name: str) -> Iterator[tuple[ast.expr, str | float | bool, str]]:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, (str, int, float)):
            yield node, node.value, name
        return
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield node, -value, name
        return
    for child, its_name in _parts(node, name):
        yield from _below(child, its_name)


def _parts(node: ast.AST, name: str) -> Sequence[tuple[ast.AST, str]]:  # noqa: PLR0911 - one for each kind
    """What of ``node`` may hold literals that can be anything."""
    match node:
        case ast.JoinedStr() | ast.Match() | ast.Expr(value=ast.Constant()):
            return ()
        case ast.Subscript(value=value, slice=index):
            return ((value, name),) if isinstance(index, (ast.Constant, ast.UnaryOp)) else ((value, ""), (index, ""))
        case ast.Dict(keys=keys, values=values):
            spelt = [str(k.value) if isinstance(k, ast.Constant) else "" for k in keys]
            others = [(k, "") for k in keys if k is not None and not isinstance(k, ast.Constant)]
            return [*others, *zip(values, spelt, strict=True)]
        case ast.keyword(arg=arg, value=value):
            return ((value, arg or ""),)
        case ast.Assign(targets=[ast.Name(id=target)], value=value):
            return ((value, target),)
        case ast.AnnAssign(target=target, value=value):
            return ((target, ""), *(((value, target.id if isinstance(target, ast.Name) else ""),) if value else ()))
        case ast.Compare(left=left, comparators=compared):
            return ((left, ""), *((one, _name(left)) for one in compared))
        case ast.FunctionDef(body=body, args=args) | ast.AsyncFunctionDef(body=body, args=args):
            return [(one, "") for one in (*args.defaults, *filter(None, args.kw_defaults), *body)]
        case _:
            return [(child, "") for child in ast.iter_child_nodes(node)]


def _name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
        case _:
            return ""
