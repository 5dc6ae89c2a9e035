"""Code looked at by Monty's parser and its type checker, in a worker, without being run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pml_sandbox.inputs import python_names
from pml_sandbox.stubs import PythonStubs
from pml_sandbox.verdicts import SYNTAX, TYPE, UNDEFINED, UNSUPPORTED, Mistake, named_tools, verdict

from .problems import describe

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, CodeRun, Session
    from pml_kit.offers import Verdict

    from .workers import Workers

INDENT = 4
_LINES = re.compile(r"\r\n|\r|\n")
CERTAIN: Mapping[str, str] = {
    "invalid-syntax": SYNTAX,
    "unresolved-reference": UNDEFINED,
    "unresolved-import": UNSUPPORTED,
    "call-non-callable": TYPE,
    "invalid-argument-type": TYPE,
    "invalid-await": TYPE,
    "missing-argument": TYPE,
    "no-matching-overload": TYPE,
    "not-iterable": TYPE,
    "not-subscriptable": TYPE,
    "parameter-already-assigned": TYPE,
    "too-many-positional-arguments": TYPE,
    "unsupported-operator": TYPE,
}
"""Rules of the checker that code cannot get away with, and their codes. What others say may be fine when it runs."""
IGNORED = frozenset({"unresolved-global"})
"""What is global in the code is none in the function that it is put into."""
_UNSURE = re.compile(r"found `[^`]* \| |Expected `Literal\[|found `tuple\[")
"""A value that may fit though its type need not."""
_GUARDS = re.compile(r"\bexcept\b")


class CodeCheck:
    """Looks at code."""

    def __init__(self, catalog: Catalog) -> None:
        """``catalog`` has the tools that code may call."""
        self._catalog, self._stubs = catalog, PythonStubs(lenient=True)

    async def verdict(self, task: CodeRun, session: Session, workers: Workers, most_s: float) -> Verdict:
        """What can be told of ``task`` for ``session``, by one of ``workers`` in ``most_s`` [s]."""
        from pydantic_monty import MontyCrashedError, MontyError, MontyTypingError

        # Nothing of it is run: all of it stands in a function that nobody calls.
        body = _in_function(task)
        stubs = self._stubs.write(named_tools(task, self._catalog, session)) if task.tools != () else ""
        limits = {"max_feed_duration_secs": max(most_s, 0.001)}
        mistakes: list[Mistake] = []
        try:
            how = {"type_check": True, "type_check_stubs": stubs, "type_check_format": "json"}
            async with workers.session(limits=limits, **how) as worker:
                try:
                    await worker.feed_start(body)
                except MontyTypingError as exc:
                    mistakes += _typing(exc.display(), task)
                    if not any(one.code == SYNTAX for one in mistakes):
                        await worker.feed_start(body, skip_type_check=True)
        except MontyCrashedError:
            return verdict("nothing", unchecked="The type checker used more time or memory than it may.")
        except MontyError as exc:
            mistakes.append(_refused(exc))
        return verdict("types", mistakes)


def _in_function(task: CodeRun) -> str:
    head = f"async def _code({', '.join(dict.fromkeys((*python_names(task.inputs), 'inputs')))}):"
    # A form feed would end the indentation.
    lines = _LINES.split(task.source.replace("\x0c", " ")) if task.source.strip() else ["pass"]
    return "\n".join((head, *(f"{' ' * INDENT}{line}" for line in lines)))


def _typing(said: str, task: CodeRun) -> Iterator[Mistake]:
    for one in json.loads(said):
        rule, message = one["code"], one["message"]
        if one["severity"] != "error" or rule in IGNORED:
            continue
        certain = rule in CERTAIN and not _UNSURE.search(message)
        if rule == "unresolved-import" and _GUARDS.search(task.source):
            certain = False
        row, column = one["location"]["row"], one["location"]["column"]
        yield Mistake(
            code=CERTAIN.get(rule, TYPE),
            message=message,
            line=max(row - 1, 1),
            column=max(column - INDENT, 1),
            certain=certain,
        )


def _refused(error: Any) -> Mistake:
    """What Monty itself does not take: part of the language that it lacks, mostly."""
    told = describe(error)
    code = SYNTAX if told.name == "SyntaxError" else UNSUPPORTED
    line = None if told.line is None else max(told.line - 1, 1)
    column = None if told.column is None else max(told.column - INDENT, 1)
    return Mistake(code=code, message=told.message, line=line, column=column)
