"""Code that is parsed and compiled, and not run."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from pml_sandbox.inputs import python_names
from pml_sandbox.verdicts import SYNTAX, Mistake, verdict

from .boot import NAME, TOP_LEVEL_AWAIT, compiled

if TYPE_CHECKING:
    from pml_hookspecs import CodeRun
    from pml_kit.offers import Verdict


def check(task: CodeRun) -> Verdict:
    """What this interpreter's own compiler says of code that the same interpreter would run, as it would run it."""
    try:
        with warnings.catch_warnings():
            # Of odd escapes, say; they are the author's business.
            warnings.simplefilter("ignore")
            if task.program:
                compile(task.source, NAME, "exec", TOP_LEVEL_AWAIT, dont_inherit=True)
            else:
                compiled(task.source, python_names(task.inputs))
    except SyntaxError as exc:
        mistake = Mistake(code=SYNTAX, message=exc.msg or "invalid syntax", line=exc.lineno, column=exc.offset or None)
        return verdict("syntax", [mistake])
    except (ValueError, RecursionError, MemoryError) as exc:
        return verdict("syntax", [Mistake(code=SYNTAX, message=str(exc) or "nested too deeply")])
    return verdict("syntax")
