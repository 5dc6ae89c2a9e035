"""What a schema names, for whoever draws texts from it. Takes schemas of any quality and never raises."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .intersection import Flat

NOTHING: Flat = {}


def properties(schema: Any) -> Mapping[str, Any]:
    """Members that a schema names itself, with their schemas; empty for what is no schema."""
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return found if isinstance(found, Mapping) else NOTHING


def required(schema: Any) -> Mapping[str, None]:
    """Names that a schema itself requires, in their order."""
    found = schema.get("required") if isinstance(schema, Mapping) else None
    return dict.fromkeys(name for name in found if isinstance(name, str)) if isinstance(found, list) else {}


def parameters(schema: Any, *, deepest: int, most: int) -> Iterator[tuple[str, Flat]]:
    """Names and schemas of members, and of what is inside them and their items; outer ones first in each branch.

    Args:
        schema: Of an object.
        deepest: Levels that are told.
        most: How many are told.
    """
    waiting = [_inside(schema)]
    while waiting and most > 0:
        found = next(waiting[-1], None)
        if found is None:
            waiting.pop()
            continue
        most -= 1
        yield found
        if len(waiting) < deepest:
            waiting.append(_inside(found[1], found[1].get("items")))


def _inside(*schemas: Any) -> Iterator[tuple[str, Flat]]:
    for schema in schemas:
        for name, inner in properties(schema).items():
            if isinstance(inner, Mapping):
                yield str(name), inner


def part_at(root: Any, path: Iterable[str | int]) -> Flat:
    """The schema that a validator's ``path`` leads to; empty where there is none."""
    at = root
    for step in path:
        if isinstance(at, Mapping):
            at = at.get(step)
        else:
            at = at[step] if isinstance(at, list) and isinstance(step, int) and step < len(at) else None
    return at if isinstance(at, Mapping) else NOTHING
