"""Code that is parsed and compiled, and not run."""

from __future__ import annotations

import ast
import keyword
import warnings
from typing import TYPE_CHECKING

from pml_sandbox.verdicts import LONGEST, SYNTAX, TOO_LONG, Mistake, verdict

if TYPE_CHECKING:
    from pml_hookspecs import CodeRun, Verdict

NAME = "<code>"


def check(task: CodeRun) -> Verdict:
    """What this interpreter's own parser and compiler say of code that is run by the same interpreter."""
    if len(task.source) > LONGEST:
        return verdict("nothing", unchecked=TOO_LONG)
    try:
        with warnings.catch_warnings():
            # Of odd escapes, say; they are the author's business.
            warnings.simplefilter("ignore")
            _compile(task)
    except SyntaxError as exc:
        mistake = Mistake(code=SYNTAX, message=exc.msg or "invalid syntax", line=exc.lineno, column=exc.offset or None)
        return verdict("syntax", [mistake])
    except (ValueError, RecursionError, MemoryError) as exc:
        return verdict("syntax", [Mistake(code=SYNTAX, message=str(exc) or "nested too deeply")])
    return verdict("syntax")


def _compile(task: CodeRun) -> None:
    """Compile ``task`` as the bootstrap of the sandbox does.

    Raises:
        SyntaxError: It is none of what a source may be.
    """
    tree = ast.parse(task.source, NAME)
    if task.program or not any(isinstance(node, ast.Return) for node in ast.walk(tree)):
        _as_module(tree)
        return
    try:
        _as_function("async def", tree, task)
    except SyntaxError as exc:
        try:
            # With a return in a function of its own only, it is no body of one; with ``yield``, no coroutine.
            _as_function("def", tree, task)
        except SyntaxError:
            try:
                _as_module(tree)
            except SyntaxError:
                raise exc from None


def _as_module(tree: ast.Module) -> None:
    compile(tree, NAME, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def _as_function(kind: str, tree: ast.Module, task: CodeRun) -> None:
    names = [name for name in task.inputs if name.isidentifier() and not keyword.iskeyword(name)]
    around = ast.parse(f"{kind} __body__({', '.join(names)}):\n    pass")
    around.body[0].body = tree.body or around.body[0].body  # type: ignore[attr-defined]
    compile(around, NAME, "exec", dont_inherit=True)
