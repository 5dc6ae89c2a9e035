"""How what a schema takes has changed, within a budget: a list of changes, each of a kind and at a place."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pml_kit.schema.budget import Budget, UnreadableError
from pml_kit.schema.document import Document, item_schemas, listed, mapped
from pml_kit.schema.intersection import Flat, type_names, type_of

Kind: TypeAlias = Literal[
    "added", "demanded", "removed", "required", "optional", "wider", "narrower", "other", "closed", "default", "number"
]
"""``added`` and ``demanded``: a member that was not there, and may or must be given; ``required`` and ``optional``: one
that was there, and must or need not be given now; ``closed``: members that nobody described are not taken any more;
``default``: another value is meant where none is given; ``number``: the same of numbers."""
Side: TypeAlias = "tuple[Flat, list[Any] | None]"
"""An alternative of one type, and the values that it may have; None for all of the type."""
Limit: TypeAlias = "tuple[float, bool]"
"""A bound, and whether it is none of the values itself; the larger takes less."""

SHORT = 60
"""Of a value that is shown [characters]."""
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
MOST_EXACT = 2**53 - 1
"""Integers above are not exact for many readers of JSON; a bound there is none."""
_BOUNDS: Mapping[str, Sequence[str]] = {
    "string": ("minLength", "maxLength"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "array": ("minItems", "maxItems", "minContains", "maxContains"),
    "object": ("minProperties", "maxProperties"),
}
_NUMBERS = {"integer", "number"}
_MORE: Mapping[str, Sequence[str]] = {
    "string": ("pattern",),
    "integer": ("multipleOf",),
    "number": ("multipleOf",),
    "array": ("uniqueItems", "contains", "unevaluatedItems"),
    "object": ("patternProperties", "propertyNames", "dependentRequired", "dependentSchemas", "dependencies",
               "unevaluatedProperties"),
}  # fmt: skip
"""Words that are compared and not understood, by the type that they are about."""
_ANY = ("not", "if", "then", "else")
_UNSURE = frozenset({"$dynamicRef", "$recursiveRef"})
_WALKED = ("properties", "required", "title", "description", "additionalProperties")


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One thing that is otherwise."""

    kind: Kind
    place: str
    """Such as ``filter.tags[]``; empty for the whole."""
    detail: str = ""


def schema_changes(before: Any, now: Any) -> list[SchemaChange]:
    """What is otherwise of what two schemas take; empty where only words differ.

    Raises:
        UnreadableError: There is no telling, or it is too much work.
    """
    comparison = _Comparison(before, now)
    comparison.compare(before, now, "", 0)
    return list(dict.fromkeys(comparison.found))


class _Comparison:
    def __init__(self, before: Any, now: Any) -> None:
        budget = Budget()
        self._before, self._now = Document(before, budget), Document(now, budget)
        self._pairs: dict[tuple[int, int], tuple[Any, Any]] = {}
        """Kept with what they are of, whose number could become another's."""
        self._same_parts = _equal(_parts(before), _parts(now))
        self.found: list[SchemaChange] = []

    def _add(self, kind: Kind, place: str, detail: str = "") -> None:
        self.found.append(SchemaChange(kind, place, detail))

    def compare(self, before: Any, now: Any, place: str, depth: int) -> None:
        key = (id(before), id(now))
        if key in self._pairs or (self._same_parts and _equal(before, now)):
            return
        self._pairs[key] = (before, now)
        self._before.look(before, depth)
        self._now.look(now, depth)
        if before is False or now is False:
            if before is not now:
                self._add("wider" if before is False else "narrower", place, "takes anything or nothing")
            return
        self._defaults(before, now, place)
        one, two = _by_type(self._before, before, depth), _by_type(self._now, now, depth)
        new = [name for name in two if name not in one and not (name == "integer" and "number" in one)]
        gone = [name for name in one if name not in two and not (name == "integer" and "number" in two)]
        if new:
            self._add("wider", place, f"takes {_words(new)} as well as {_words(one)}")
        if gone:
            self._add("narrower", place, f"takes no {_words(gone)} any more")
        for name, sides in two.items():
            others = one.get(name) or (one.get("number") if name == "integer" else None)
            if others:
                self._alternatives(name, others, sides, place, depth)
        if "integer" in one and "integer" not in two and "number" in two and "number" not in one:
            self._alternatives("number", one["integer"], two["number"], place, depth)

    def _defaults(self, before: Any, now: Any, place: str) -> None:
        if not (isinstance(before, Mapping) and isinstance(now, Mapping) and "default" in before and "default" in now):
            return
        old, new = before["default"], now["default"]
        if not _equal(old, new) and old is not None:
            number = type_of(old) in _NUMBERS and type_of(new) in _NUMBERS
            self._add("number" if number else "default", place, f"{_short(old)} before, {_short(new)} now")

    def _alternatives(self, name: str, before: list[Side], now: list[Side], place: str, depth: int) -> None:
        if all(values is not None for _, values in (*before, *now)):
            self._values(
                [v for _, some in before for v in some or ()], [v for _, some in now for v in some or ()], place
            )
            return
        known = [_text(flat) for flat, _ in before]
        new = [side for side in now if _text(side[0]) not in known] if self._same_parts else list(now)
        have = {_text(flat) for flat, _ in now}
        old = [side for side, text in zip(before, known, strict=True) if not self._same_parts or text not in have]
        for (one, were), (two, are) in zip(old, new, strict=False):
            if were is None and are is not None:
                self._add("narrower", place, "takes only some values")
            elif were is not None and are is None:
                self._add("wider", place, "takes any value, and took only some")
            elif were is not None and are is not None:
                self._values(were, are, place)
            self._flats(name, one, two, place, depth)
        if len(new) > len(old):
            self._add("wider", place, f"takes another kind of {name}")
        elif len(old) > len(new):
            self._add("narrower", place, f"takes one kind of {name} less")

    def _values(self, before: list[Any], now: list[Any], place: str) -> None:
        known, have = {_text(one): one for one in before}, {_text(one): one for one in now}
        if new := [value for text, value in have.items() if text not in known]:
            self._add("wider", place, f"takes {', '.join(map(_short, new[:5]))} as well")
        if gone := [value for text, value in known.items() if text not in have]:
            self._add("narrower", place, f"does not take {', '.join(map(_short, gone[:5]))} any more")

    def _flats(self, name: str, before: Flat, now: Flat, place: str, depth: int) -> None:
        self._bounds(name, before, now, place)
        for word in (*_MORE.get(name, ()), *_ANY):
            if word in before or word in now:
                self._word(word, before, now, place)
        if name == "object":
            self._members(before, now, place, depth)
        elif name == "array":
            self._items(before, now, place, depth)

    def _word(self, word: str, before: Flat, now: Flat, place: str) -> None:
        if word not in before:
            self._add("narrower", place, f"{word} is new")
        elif word not in now:
            self._add("wider", place, f"{word} is gone")
        elif not _equal(before[word], now[word]) or (not self._same_parts and "$ref" in _text(now[word])):
            self._add("other", place, f"{word} is another")

    def _bounds(self, name: str, before: Flat, now: Flat, place: str) -> None:
        for word, old, new in zip(_BOUNDS.get(name, ()), _limits(name, before), _limits(name, now), strict=True):
            if old != new:
                tighter = old is None or (new is not None and new > old)
                text = "new" if old is None else "gone" if new is None else "another"
                self._add("narrower" if tighter else "wider", place, f"{word} is {text}")

    def _members(self, before: Flat, now: Flat, place: str, depth: int) -> None:
        old, new = mapped(before, "properties"), mapped(now, "properties")
        must, needs = set(listed(before, "required")), set(listed(now, "required"))
        for name, schema in new.items():
            where = f"{place}.{name}" if place else str(name)
            if name in old:
                self.compare(old[name], schema, where, depth + 1)
            elif name not in must:
                self._add("demanded" if name in needs else "added", where)
        for name in old:
            if name not in new:
                self._add("removed", f"{place}.{name}" if place else str(name))
        for name in sorted(map(str, needs - must)):
            if name in old or name not in new:
                self._add("required", f"{place}.{name}" if place else name)
        for name in sorted(map(str, must - needs)):
            if name in new:
                self._add("optional", f"{place}.{name}" if place else name)
        self._rest(
            before.get("additionalProperties", True), now.get("additionalProperties", True), bool(old), place, depth
        )

    def _rest(self, before: Any, now: Any, described: bool, place: str, depth: int) -> None:  # noqa: FBT001 - what it compares
        if before is False and now is not False:
            self._add("wider", place, "takes members that nobody described")
        elif now is False and before is not False:
            text = "takes no members that nobody described"
            self._add("closed" if described else "narrower", place, text)
        elif before is not now:
            self.compare(before, now, f"{place}.*" if place else "*", depth + 1)

    def _items(self, before: Flat, now: Flat, place: str, depth: int) -> None:
        (first, rest), (ours, others) = item_schemas(before), item_schemas(now)
        if len(first) != len(ours):
            self._add("other", place, "has other items")
            return
        for one, two in zip((*first, rest), (*ours, others), strict=True):
            self.compare(one, two, f"{place}[]", depth + 1)


def _parts(root: Any) -> Any:
    """What references may lead to and the comparison does not come by."""
    return {k: v for k, v in root.items() if k not in _WALKED} if isinstance(root, Mapping) else None


def _by_type(document: Document, schema: Any, depth: int) -> dict[str, list[Side]]:
    """The alternatives of a schema by the type of what they take; all types where it says nothing of that."""
    found: dict[str, list[Side]] = {}
    for flat in _branches(document, schema, depth):
        for name, values in _types(flat):
            found.setdefault(name, []).append((flat, values))
    return found


def _branches(document: Document, schema: Any, depth: int) -> Iterable[Flat]:
    if schema is True or schema == {}:
        return ({},)
    _check(document, schema, depth)
    branches = document.branches(schema, depth)
    if branches is None:
        raise UnreadableError("nobody can tell what the schema takes")
    return branches


def _check(document: Document, schema: Any, depth: int) -> None:
    """See that all is there that must hold of a schema.

    Raises:
        UnreadableError: It is not.
    """
    if not isinstance(schema, Mapping):
        return
    document.look(schema, depth)
    if not _UNSURE.isdisjoint(schema):
        raise UnreadableError("the schema refers to what only a validator finds")
    for part in document.every(schema):
        if part is None:
            raise UnreadableError("the schema refers to a part that it does not have, or to another document")
        _check(document, part, depth + 1)


def _types(flat: Flat) -> Iterator[tuple[str, list[Any] | None]]:
    named = [name for name in type_names(flat) if name in TYPES]
    values = [flat["const"]] if "const" in flat else flat.get("enum")
    if not isinstance(values, list):
        yield from ((name, None) for name in named or TYPES if not (name == "integer" and "number" in (named or TYPES)))
        return
    kinds = [type_of(value) for value in values]
    whole = "number" not in kinds
    by_type: dict[str, list[Any]] = {}
    for value, kind in zip(values, kinds, strict=True):
        if not named or kind in named or (kind == "integer" and "number" in named):
            by_type.setdefault(kind if whole or kind != "integer" else "number", []).append(value)
    yield from by_type.items()


def _limits(name: str, schema: Flat) -> list[Limit | None]:
    """The bounds of a type, in the order of their words; larger ones take less, None is none."""
    return [_limit(schema, word, whole=name != "number") for word in _BOUNDS.get(name, ())]


def _limit(schema: Flat, word: str, *, whole: bool) -> Limit | None:
    exclusive = schema.get(f"exclusive{word.capitalize()}") if word in ("minimum", "maximum") else None
    found = []
    for value, strict in (
        (schema.get(word), exclusive is True),
        (exclusive, True),
    ):  # as draft 4 and later ones write it
        if value is None or isinstance(value, bool):
            continue
        if not isinstance(value, (int, float)):
            raise UnreadableError(f"{word} is no number")
        least = value if word.startswith("min") else -value
        found.append(((math.floor(least) + 1 if strict else math.ceil(least)), False) if whole else (least, strict))
    best = max(found, default=None)
    lowest = -MOST_EXACT if word in ("minimum", "maximum") or word.startswith("max") else 0
    return None if best is None or (whole and best[0] <= lowest) else best


def _equal(one: Any, other: Any) -> bool:
    # To Python 1 is True; not to JSON.
    return bool(one == other) and _text(one) == _text(other)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=dict)


def _short(value: Any) -> str:
    text = json.dumps(value, default=dict)
    return text if len(text) <= SHORT else f"{text[:SHORT]}…"


def _words(names: Iterable[str]) -> str:
    names = list(names)
    return "anything" if len(names) >= len(TYPES) - 1 else " or ".join(names)
