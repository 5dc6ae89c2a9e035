"""What a JSON Schema says of a part of the values that fit it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pml_kit.references import Path, path_text
from pml_kit.schema.budget import PER_STEP, Budget, UnreadableError
from pml_kit.schema.document import Document
from pml_kit.schema.intersection import Flat, common_types, same, types_in

from .message_text import either, listed, nearest, short

DEEPEST = 24
MOST_STEPS = 1_500
"""Steps that one question about a schema may cost."""
OBJECT, ARRAY = frozenset({"object"}), frozenset({"array"})


@dataclass(frozen=True, slots=True)
class SubSchema:
    """A schema inside a document. ``True`` as the node says nothing."""

    root: Any
    """The document, for references."""
    node: Any
    sure: bool = True
    """Whether it was declared; False when it was learned from examples."""

    def inner(self, node: Any) -> SubSchema:
        """Another schema of the same document."""
        return SubSchema(self.root, node, self.sure)


@dataclass(frozen=True, slots=True)
class MissingPath:
    """Says that a path finds nothing in a schema, and why."""

    message: str
    certain: bool
    """Whether the schema rules it out; False when it only does not mention it."""


ANYTHING = SubSchema(True, True)
TEXT = SubSchema(True, {"type": "string"})
INTEGER = SubSchema(True, {"type": "integer"})


def of_value(value: Any) -> dict[str, Any]:
    """A schema that fits ``value`` and says as much of it as one can."""
    if isinstance(value, Mapping):
        members = {str(name): of_value(member) for name, member in value.items()}
        return {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}
    if isinstance(value, (list, tuple)):
        first = {"prefixItems": [of_value(item) for item in value]} if value else {}
        return {"type": "array", **first, "items": False}
    return {"const": value}


def outline_of(value: Any) -> dict[str, Any]:
    """As :func:`of_value`, of a value that may be huge: of what is inside, only of which kind it is."""
    if isinstance(value, Mapping):
        members = {str(name): _kind_of(member) for name, member in value.items()}
        return {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}
    return {**_kind_of(value), "minItems": len(value)} if isinstance(value, (list, tuple)) else {"const": value}


def _kind_of(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {"type": "object"}
    return {"type": "array", "maxItems": len(value)} if isinstance(value, (list, tuple)) else {"const": value}


def follow(part: SubSchema, path: Path) -> SubSchema | MissingPath:
    """What stands under ``path`` in values that fit ``part``; :data:`ANYTHING` when nothing is said of it."""
    budget = Budget(MOST_STEPS)
    for depth, key in enumerate(path):
        found: list[SubSchema] = []
        lost: list[MissingPath] = []
        for flat in _branches(part, budget) or [{}]:
            got = _step(part, flat, key, path[:depth])
            if got is ANYTHING:
                return ANYTHING
            found += [got] if isinstance(got, SubSchema) else []
            lost += [got] if isinstance(got, MissingPath) else []
        if not found:
            return next((one for one in lost if not one.certain), lost[0])
        part = found[0] if len(found) == 1 else part.inner({"anyOf": [one.node for one in found]})
    return part


def unpromised(part: SubSchema, path: Path) -> str:
    """The first member on ``path`` that a schema names and does not require; ``""`` when there is none.

    A schema that requires nothing at all says nothing of what is always there.
    """
    for depth, key in enumerate(path):
        here = follow(part, path[:depth])
        flats = None if isinstance(here, MissingPath) else branches(here)
        for flat in flats or ():
            required = flat.get("required") or ()
            if required and isinstance(key, str) and key in flat.get("properties", {}) and key not in required:
                return key
    return ""


def branches(part: SubSchema) -> list[Flat] | None:
    """The alternatives of a schema, without references and choices; None when it says nothing, or is too knotted."""
    return _branches(part, Budget(MOST_STEPS))


def _branches(part: SubSchema, budget: Budget) -> list[Flat] | None:
    try:
        return Document(part.root, budget, deepest=DEEPEST).branches(part.node)
    except UnreadableError:
        return None


def types(part: SubSchema) -> frozenset[str] | None:
    """The JSON types of what fits ``part``; None for all."""
    return _types(branches(part))


def _types(flats: Sequence[Flat] | None) -> frozenset[str] | None:
    found = [types_in(flat) for flat in flats or ()]
    return None if None in found or not found else frozenset().union(*(one for one in found if one))


def _step(part: SubSchema, flat: Flat, key: str | int, before: Path) -> SubSchema | MissingPath:
    allowed = types_in(flat)
    if allowed is not None and allowed.isdisjoint((*OBJECT, *ARRAY)):
        return MissingPath(f"{_there(before)} is {either(allowed)}", certain=True)
    if allowed == ARRAY or (allowed is None and "properties" not in flat and "items" in flat):
        return _item(part, flat, key, before)
    if allowed == OBJECT or "properties" in flat:
        return _member(part, flat, str(key), before)
    return ANYTHING


def _item(part: SubSchema, flat: Flat, key: str | int, before: Path) -> SubSchema | MissingPath:
    if isinstance(key, str) and not key.isdecimal():
        return MissingPath(f"{_there(before)} is an array; give a position, such as [0]", certain=True)
    index, items = int(key), flat.get("items", True)
    first = items if isinstance(items, list) else flat.get("prefixItems", ())
    rest = flat.get("additionalItems", True) if isinstance(items, list) else items
    if index < len(first):
        return part.inner(first[index])
    most = flat.get("maxItems")
    if rest is False or (isinstance(most, int) and index >= most):
        return MissingPath(
            f"{_there(before)} has at most {most if rest is not False else len(first)} items", certain=True
        )
    return part.inner(rest) if isinstance(rest, Mapping) and rest else ANYTHING


def _member(part: SubSchema, flat: Flat, key: str, before: Path) -> SubSchema | MissingPath:
    named = flat.get("properties", {})
    others = named.get(key, flat.get("additionalProperties"))
    if key in named and named[key] is not False:
        return part.inner(others) if isinstance(others, Mapping) and others else ANYTHING
    if flat.get("patternProperties") and key not in named:
        # Trying a server's patterns here could take forever.
        return ANYTHING
    if isinstance(others, Mapping) and others:
        return part.inner(others)
    if others in (True, {}) or (others is None and not named):
        return ANYTHING
    known = [name for name in named if named[name] is not False]
    near = nearest(key, known)
    hint = f"; did you mean {near[0]!r}?" if near else f"; there {'are' if len(known) > 1 else 'is'} {listed(known)}"
    hint = hint if known else ""
    says = "has no" if others is False and part.sure else "is not known to have a"
    return MissingPath(f"{_there(before)} {says} {key!r}{hint}", certain=others is False and part.sure)


def _there(before: Path) -> str:
    return path_text(before).removeprefix(".") if before else "the result"


def clash(out: SubSchema, into: SubSchema) -> str:
    """Why no value that fits ``out`` fits ``into``; ``""`` when one may, or nobody can tell."""
    try:
        return _Clashes(Budget(MOST_STEPS)).of(out, into, 0)
    except UnreadableError:
        return ""


class _Clashes:
    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def of(self, out: SubSchema, into: SubSchema, depth: int) -> str:
        given, wanted = _branches(out, self._budget), _branches(into, self._budget)
        if given is None or wanted is None or depth > DEEPEST:
            return ""
        reasons = [self._one(out, one, into, other, depth) for one in given for other in wanted]
        if not reasons or not all(reasons):
            return ""
        has, takes = _types(given), _types(wanted)
        if has is not None and takes is not None and not common_types(has, takes):
            return f"is {either(has)}, and must be {either(takes)}"
        return reasons[0]

    def _one(self, out: SubSchema, given: Flat, into: SubSchema, wanted: Flat, depth: int) -> str:
        self._budget.look_at(given)
        self._budget.look_at(wanted)
        has, takes = types_in(given), types_in(wanted)
        if has is not None and takes is not None and not common_types(has, takes):
            return f"is {either(has)}, and must be {either(takes)}"
        values, allowed = _values(given), _values(wanted)
        if values is not None and allowed is not None:
            self._budget.spend(len(values) * len(allowed) // PER_STEP)
            if not any(same(value, one) for value in values for one in allowed):
                return f"is {listed(map(short, values))}, and must be one of {listed(map(short, allowed))}"
        if has == takes == OBJECT:
            return self._of_objects(out, given, into, wanted, depth)
        items, others = given.get("items"), wanted.get("items")
        if has == takes == ARRAY and isinstance(items, Mapping) and isinstance(others, Mapping):
            reason = self.of(out.inner(items), into.inner(others), depth + 1)
            return f"is an array each item of which {reason}" if reason else ""
        return ""

    def _of_objects(self, out: SubSchema, given: Flat, into: SubSchema, wanted: Flat, depth: int) -> str:
        has, takes = given.get("properties", {}), wanted.get("properties", {})
        for name in wanted.get("required", ()):
            if has.get(name, False) is False:
                if (name in has or given.get("additionalProperties") is False) and out.sure:
                    return f"is an object without {name!r}, which is wanted"
                continue
            if name in takes and (reason := self.of(out.inner(has[name]), into.inner(takes[name]), depth + 1)):
                return f"is an object whose {name!r} {reason}"
        return ""


def _values(flat: Flat) -> Sequence[Any] | None:
    if "const" in flat:
        return [flat["const"]]
    return flat["enum"] if isinstance(flat.get("enum"), list) else None
