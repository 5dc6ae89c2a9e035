"""Which results a condition looks at, by the language that conditions are written in (JMESPath)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

FROM_THE_FIRST = frozenset(
    ("subexpression", "index_expression", "pipe", "projection", "value_projection", "filter_projection")
)
"""Kinds of expressions whose first part alone looks at the outermost object."""


def names_in(condition: str) -> tuple[str, ...]:
    """Ids of the tasks that ``condition`` looks at, each once.

    Empty for ``""``, and for what cannot be read: of that the executor says what is wrong.
    """
    if not condition:
        return ()
    # Only plans with conditions pay for the library.
    from jmespath import parser

    try:
        return tuple(dict.fromkeys(_roots(parser.Parser().parse(condition).parsed)))
    except (ValueError, RecursionError):
        return ()


def _roots(expression: Any) -> Iterator[str]:
    kind, parts = expression["type"], expression["children"]
    if kind == "field":
        yield expression["value"]
    elif kind in FROM_THE_FIRST:
        yield from _roots(parts[0])
    elif kind != "expref":
        for part in parts:
            if isinstance(part, dict):
                yield from _roots(part)
