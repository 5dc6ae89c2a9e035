"""What a JSON Schema says of a part of the values that fit it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pml_dry_run.budget import PER_STEP, Budget, OverBudgetError
from pml_hookspecs.schemas import target_of
from pml_kit.references import Path

from .message_text import either, listed, nearest, path_text, short

DEEPEST = 24
MOST_BRANCHES = 64
MOST_STEPS = 1_500
"""Steps that one question about a schema may cost."""
NUMBERS = frozenset({"integer", "number"})
OBJECT, ARRAY = frozenset({"object"}), frozenset({"array"})
_UNSURE = frozenset({"$dynamicRef", "$recursiveRef"})

Flat: TypeAlias = Mapping[str, Any]
"""A schema without references and choices."""


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


def follow(part: SubSchema, path: Path) -> SubSchema | MissingPath:
    """What stands under ``path`` in values that fit ``part``; :data:`ANYTHING` when nothing is said of it."""
    try:
        return _followed(part, path, Budget(MOST_STEPS))
    except OverBudgetError:
        return ANYTHING


def _followed(part: SubSchema, path: Path, budget: Budget) -> SubSchema | MissingPath:
    here = [part]
    for depth, key in enumerate(path):
        found: list[SubSchema] = []
        lost: list[MissingPath] = []
        for one in here:
            flats = _branches(one, budget)
            if flats is None:
                return ANYTHING
            for flat in flats:
                got = _step(one, flat, key, path[:depth])
                if isinstance(got, MissingPath):
                    lost.append(got)
                elif got is ANYTHING:
                    return ANYTHING
                else:
                    found.append(got)
        if not found:
            worst = next((one for one in lost if not one.certain), lost[0] if lost else None)
            return worst or ANYTHING
        here = found[:MOST_BRANCHES]
    return here[0] if len(here) == 1 else SubSchema(None, here, all(one.sure for one in here))


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
    try:
        return _branches(part, Budget(MOST_STEPS))
    except OverBudgetError:
        return None


def _branches(part: SubSchema, budget: Budget, depth: int = 0) -> list[Flat] | None:
    if isinstance(part.node, list):
        several = [_branches(one, budget, depth + 1) for one in part.node]
        return None if None in several else [flat for flats in several for flat in flats or ()]
    node = part.node
    if not isinstance(node, Mapping) or not node or depth > DEEPEST or not _UNSURE.isdisjoint(node):
        return None
    budget.look_at(node)
    own: list[Flat] = [{k: v for k, v in node.items() if k not in ("$ref", "allOf", "anyOf", "oneOf")}]
    for inner in _conditions(part):
        several = [_branches(one, budget, depth + 1) for one in inner]
        if None in several:
            # Of one that says nothing, the rest still holds; a choice with such a one may be anything.
            own = [] if len(inner) > 1 else own
        else:
            flats = [flat for found in several for flat in found or ()]
            own = [both for one in own for other in flats if (both := _merged(one, other, budget)) is not None]
        if not 0 < len(own) <= MOST_BRANCHES:
            return None
    return own


def _conditions(part: SubSchema) -> Iterator[list[SubSchema]]:
    """Lists of schemas of each of which one must hold."""
    node = part.node
    if "$ref" in node:
        yield [part.inner(_target(part.root, node["$ref"]))]
    every = node.get("allOf")
    for one in every if isinstance(every, list) else ():
        yield [part.inner(one)]
    for name in ("anyOf", "oneOf"):
        if isinstance(node.get(name), list) and node[name]:
            yield [part.inner(one) for one in node[name]]


def _target(root: Any, reference: Any) -> Any:
    """None for references that lead nowhere, or out of the document."""
    if not isinstance(reference, str) or not reference.startswith("#") or (reference[1:] and reference[1] != "/"):
        return None
    return target_of(root, reference)


def _merged(one: Flat, other: Flat, budget: Budget) -> Flat | None:
    """What fits both, as nearly as one flat schema can say it; None when nothing does."""
    budget.look_at(one)
    budget.look_at(other)
    both = {**other, **one}
    if "properties" in one and "properties" in other:
        mine, theirs = one["properties"], other["properties"]
        twice = {name: {"allOf": [mine[name], theirs[name]]} for name in mine.keys() & theirs.keys()}
        both["properties"] = {**mine, **theirs, **twice}
        # Which of the two closes the object is not known any more.
        both.pop("additionalProperties", None)
    if "required" in one and "required" in other:
        both["required"] = [*one["required"], *other["required"]]
    mine, theirs = types_in(one), types_in(other)
    if mine is not None and theirs is not None:
        common = _common(mine, theirs)
        if not common:
            return None
        both["type"] = sorted(common)
    return both


def _common(one: frozenset[str], other: frozenset[str]) -> frozenset[str]:
    both = one & other
    return both | {"integer"} if "integer" in one | other and NUMBERS & one and NUMBERS & other else both


def types_in(flat: Flat) -> frozenset[str] | None:
    """The JSON types that a flat schema allows; None for all."""
    if "const" in flat:
        return frozenset({type_of(flat["const"])})
    if isinstance(flat.get("enum"), list):
        return frozenset(type_of(value) for value in flat["enum"])
    type_ = flat.get("type")
    if isinstance(type_, str):
        return frozenset({type_})
    return frozenset(type_) if isinstance(type_, list) and type_ else None


def type_of(value: Any) -> str:
    """The JSON type of a value; whole numbers are integers."""
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    names = {bool: "boolean", int: "integer", str: "string", type(None): "null"}
    return names.get(type(value), "object" if isinstance(value, Mapping) else "array")


def types(part: SubSchema) -> frozenset[str] | None:
    """The JSON types of what fits ``part``; None for all."""
    return _types(branches(part))


def _types(flats: Sequence[Flat] | None) -> frozenset[str] | None:
    if flats is None:
        return None
    found = [types_in(flat) for flat in flats]
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
    others = flat.get("additionalProperties")
    if key in named and named[key] is not False:
        node = named[key]
        return part.inner(node) if isinstance(node, Mapping) and node else ANYTHING
    if flat.get("patternProperties"):
        # Trying a server's patterns here could take forever.
        return ANYTHING
    if isinstance(others, Mapping) and others:
        return part.inner(others)
    if others in (True, {}) or (others is None and not named):
        return ANYTHING
    near = nearest(key, named)
    hint = f"; did you mean {near[0]!r}?" if near else f"; there {'are' if len(named) > 1 else 'is'} {listed(named)}"
    hint = hint if named else ""
    says = "has no" if others is False and part.sure else "is not known to have a"
    return MissingPath(f"{_there(before)} {says} {key!r}{hint}", certain=others is False and part.sure)


def _there(before: Path) -> str:
    return path_text(before).removeprefix(".") if before else "the result"


def clash(out: SubSchema, into: SubSchema) -> str:
    """Why no value that fits ``out`` fits ``into``; ``""`` when one may, or nobody can tell."""
    try:
        return _Clashes(Budget(MOST_STEPS)).of(out, into, 0)
    except OverBudgetError:
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
        if has is not None and takes is not None and not _common(has, takes):
            return f"is {either(has)}, and must be {either(takes)}"
        return reasons[0]

    def _one(self, out: SubSchema, given: Flat, into: SubSchema, wanted: Flat, depth: int) -> str:
        self._budget.look_at(given)
        self._budget.look_at(wanted)
        has, takes = types_in(given), types_in(wanted)
        if has is not None and takes is not None and not _common(has, takes):
            return f"is {either(has)}, and must be {either(takes)}"
        values, allowed = _values(given), _values(wanted)
        if values is not None and allowed is not None:
            self._budget.spend(len(values) * len(allowed) // PER_STEP)
            if not any(value in allowed for value in values):
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
            if name not in has:
                if given.get("additionalProperties") is False and out.sure:
                    return f"is an object without {name!r}, which is wanted"
                continue
            if name in takes and (reason := self.of(out.inner(has[name]), into.inner(takes[name]), depth + 1)):
                return f"is an object whose {name!r} {reason}"
        return ""


def _values(flat: Flat) -> Sequence[Any] | None:
    if "const" in flat:
        return [flat["const"]]
    return flat["enum"] if isinstance(flat.get("enum"), list) else None
