"""JMESPath expressions over results: conditions of tasks, and what of a result is answered.

JMESPath has a specification with tests that implementations in many languages pass, an expression cannot do anything
but look at its data, and what it finds is JSON. What it lacks is a bound on the work that an expression makes, so
:class:`Expression` counts that.
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
"""Of one evaluation unless more is allowed; what it looks at counts 100, each item or character that it comes by 1."""
LOOK = 100


class ExpressionError(Exception):
    """An expression cannot be read or evaluated. The message says why, in one line."""


class Expression:
    """An expression that was checked."""

    __slots__ = ("_parsed", "names", "text")

    def __init__(self, text: str) -> None:
        """Check ``text``.

        Raises:
            ExpressionError: It is no expression, calls a function that does not exist, or could make endless work.
        """
        from jmespath import parser

        if len(text) > MOST_CHARACTERS:
            raise ExpressionError(f"has {len(text)} characters; it may have {MOST_CHARACTERS}")
        try:
            self._parsed = parser.Parser().parse(text).parsed
            _check(self._parsed)
            names = list(dict.fromkeys(_roots(self._parsed)))
        except ExpressionError:
            raise
        except RecursionError:
            raise ExpressionError("is nested too deeply") from None
        except ValueError as exc:
            raise ExpressionError(f"is no JMESPath expression: {_one_line(exc)}") from None
        self.text = text
        self.names = tuple(names)
        """Members of the outermost object that it looks at, in order."""

    def find(self, data: Any, *, most_work: int = MOST_WORK) -> Any:
        """What it finds in ``data``, any JSON value; None where it finds nothing.

        Raises:
            ExpressionError: A function got what it cannot take, or it makes too much work.
        """
        try:
            return _interpreter()(most_work).visit(self._parsed, data)
        except RecursionError:
            raise ExpressionError("is nested too deeply") from None
        except (ValueError, TypeError, ArithmeticError) as exc:
            raise ExpressionError(_one_line(exc)) from None

    async def find_apart(self, data: Any, *, most_work: int = MOST_WORK) -> Any:
        """As :meth:`find`, beside the event loop: for as much work as takes a second or more.

        Raises:
            ExpressionError: As there.
        """
        import anyio.to_thread

        return await anyio.to_thread.run_sync(lambda: self.find(data, most_work=most_work))

    def holds(self, results: Mapping[str, Any]) -> bool:
        """Whether it is true of ``results``: what it finds is not null, false, or empty.

        Raises:
            ExpressionError: As :meth:`find`.
        """
        found = self.find({n: value.value if isinstance(value, RawObject) else value for n, value in results.items()})
        # As JMESPath has it, in which 0 is true.
        return not (found is None or found is False or found in ("", [], {}))


@cache
def _interpreter() -> Any:
    """The class, made when it is first needed: most plans have no conditions."""
    from jmespath.visitor import TreeInterpreter

    class BoundedInterpreter(TreeInterpreter):
        """Stops when an expression makes too much work."""

        def __init__(self, most_work: int) -> None:
            super().__init__()
            self._left = most_work

        def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
            found = super().visit(node, *args, **kwargs)
            self._left -= LOOK + (len(found) if isinstance(found, (str, list, dict)) else 0)
            if self._left < 0:
                raise ExpressionError("makes too much work; let code do it")
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
            raise ExpressionError(f"there is no function {name}(); there are {', '.join(sorted(table))}")
        takes = table[name]["signature"]
        variadic = bool(takes) and takes[-1].get("variadic", False)
        if given < len(takes) or (given > len(takes) and not variadic):
            raise ExpressionError(
                f"{name}() takes {'at least ' if variadic else ''}{len(takes)} arguments, not {given}"
            )
    if copies > MOST_COPIES:
        raise ExpressionError(f"makes {copies} copies of its data; it may make {MOST_COPIES}")


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
