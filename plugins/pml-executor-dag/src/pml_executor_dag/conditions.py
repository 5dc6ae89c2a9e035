"""Conditions: JMESPath expressions over results.

JMESPath has a specification with tests that implementations in many languages pass, an expression cannot do anything
but look at its data, and what it finds is JSON. What it lacks is a bound on the work that an expression makes, so
:class:`Condition` counts that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pml_hookspecs import RawObject

MOST_CHARACTERS = 2000
MOST_COPIES = 64
"""How often an expression may write its data into lists or objects: the product of their sizes."""
MOST_WORK = 10_000_000
"""Of one evaluation; what it looks at counts 100, each item or character that it comes by counts 1."""
LOOK = 100


class ConditionError(Exception):
    """An expression cannot be read or evaluated. The message says why, in one line."""


class Condition:
    """An expression that was checked."""

    __slots__ = ("_parsed", "names", "text")

    def __init__(self, text: str) -> None:
        """Check ``text``.

        Raises:
            ConditionError: It is no expression, calls a function that does not exist, or could make endless work.
        """
        from jmespath import parser

        if len(text) > MOST_CHARACTERS:
            raise ConditionError(f"has {len(text)} characters; it may have {MOST_CHARACTERS}")
        try:
            self._parsed = parser.Parser().parse(text).parsed
            _check(self._parsed)
            names = list(dict.fromkeys(_roots(self._parsed)))
        except ConditionError:
            raise
        except RecursionError:
            raise ConditionError("is nested too deeply") from None
        except ValueError as exc:
            raise ConditionError(f"is no JMESPath expression: {_one_line(exc)}") from None
        self.text = text
        self.names = tuple(names)
        """Members of the outermost object that it looks at, in order."""

    def holds(self, results: Mapping[str, Any]) -> bool:
        """Whether it is true of ``results``: what it finds is not null, false, or empty.

        Raises:
            ConditionError: A function got what it cannot take, or it makes too much work.
        """
        data = {name: value.value if isinstance(value, RawObject) else value for name, value in results.items()}
        try:
            found = _interpreter()().visit(self._parsed, data)
        except RecursionError:
            raise ConditionError("is nested too deeply") from None
        except (ValueError, TypeError, ArithmeticError) as exc:
            raise ConditionError(_one_line(exc)) from None
        # As JMESPath has it, in which 0 is true.
        return not (found is None or found is False or found in ("", [], {}))


@cache
def _interpreter() -> Any:
    """The class, made when it is first needed: most plans have no conditions."""
    from jmespath.visitor import TreeInterpreter

    class BoundedInterpreter(TreeInterpreter):
        """Stops when an expression makes too much work."""

        work = 0

        def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
            found = super().visit(node, *args, **kwargs)
            self.work += LOOK + (len(found) if isinstance(found, (str, list, dict)) else 0)
            if self.work > MOST_WORK:
                raise ConditionError("makes too much work; let a task of code decide instead")
            return found

    return BoundedInterpreter


def _check(parsed: Any) -> None:
    from jmespath.functions import Functions

    table, copies = Functions.FUNCTION_TABLE, 1
    for node in _nodes(parsed):
        if node["type"] in ("multi_select_list", "multi_select_dict"):
            copies *= max(len(node["children"]), 1)
        if node["type"] != "function_expression":
            continue
        name, given = node["value"], len(node["children"])
        if name not in table:
            raise ConditionError(f"there is no function {name}(); there are {', '.join(sorted(table))}")
        takes = table[name]["signature"]
        variadic = bool(takes) and takes[-1].get("variadic", False)
        if given < len(takes) or (given > len(takes) and not variadic):
            raise ConditionError(f"{name}() takes {'at least ' if variadic else ''}{len(takes)} arguments, not {given}")
    if copies > MOST_COPIES:
        raise ConditionError(f"makes {copies} copies of its data; it may make {MOST_COPIES}")


def _nodes(node: Any) -> Iterator[Any]:
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [child for child in node["children"] if isinstance(child, dict)]


def _roots(node: Any) -> Iterator[str]:
    """Names of fields that are looked up in the outermost object."""
    kind, children = node["type"], node["children"]
    if kind == "field":
        yield node["value"]
    elif kind == "expref":
        return
    elif kind in ("subexpression", "index_expression", "pipe", "projection", "value_projection", "filter_projection"):
        yield from _roots(children[0])
    else:
        for child in children:
            if isinstance(child, dict):
                yield from _roots(child)


def _one_line(problem: Exception) -> str:
    first = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
    return first.removesuffix(":").removesuffix(", for expression")[:300]
