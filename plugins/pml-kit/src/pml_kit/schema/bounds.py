"""How much work a JSON Schema from outside is for whoever reads it, counted before anybody does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, TypeAlias

from .patterns import pattern_weight
from .pointers import target_of

_MOST_CHARACTERS = 262_144
"""Of all texts and names in a schema together."""
_MOST_STEPS = 20_000
"""Schemas within a schema when its references are followed, each as often as it is reached."""
_DEEPEST = 80
"""Levels of nesting, through references too."""
_MOST_CHECKS = 10_000
"""Steps of checking one value, of some 50 ns each in a compiled validator."""
_MOST_CHECKED = 400_000
"""Steps of a schema, times the members and items of a value, up to which there is nothing to count."""

_ANCHORS = ("$anchor", "$dynamicAnchor")
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"})
_DATA = frozenset({"enum", "const", "default", "examples", "example"})
_APART = frozenset({"$defs", "definitions"})
"""What stands here counts where it is referred to."""
_EVERY = ("allOf", "anyOf", "oneOf")
_LISTS = ("required", *_EVERY)
_SAME = ("not", "if", "then", "else")
_LEFT_OVER = ("unevaluatedProperties", "unevaluatedItems")
_MOST_REPORTS = 50_000
"""Mistakes that one object can have, times the members and items of a value."""
_PER_CONTAINER = 8
_SCALARS = frozenset({bool, float, int, type(None)})

_Work: TypeAlias = tuple[int, Iterable[tuple[Any, Any]]]


class SchemaError(ValueError):
    """A schema is more work than any honest one; the message says in what way."""


class SchemaBounds:
    """One schema, measured."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Measure ``schema``: each part of it is looked at once, and nothing beyond the bounds.

        Raises:
            SchemaError: It is over the bounds.
        """
        self._root = schema
        self._anchors: dict[str, Any] = {}
        self._known: dict[int, int] = {}
        self._open: set[int] = set()
        self._patterned = False
        self._reports = 0
        self.recursive = False
        """Whether it contains itself: how much work it is depends on the value."""
        self._look_over()
        self.steps = self._steps(schema, 0)
        """Schemas that can apply to one place of a value, at most."""
        self.most_bytes = 0 if self.recursive else _MOST_CHECKED // self.steps
        """Length as JSON up to which every value is admitted [bytes]."""

    def _look_over(self) -> None:
        characters = values = 0
        inner_id = refers = False
        waiting: list[tuple[Any, int]] = [(self._root, 0)]
        while waiting:
            value, depth = waiting.pop()
            values += 1
            # Most are what JSON is read into, which is told at once.
            kind = type(value)
            if kind is str:
                characters += len(value)
            elif kind is dict or isinstance(value, Mapping):
                characters += sum(map(len, value))
                below = depth + 1
                waiting += [(member, below) for member in value.values()]
                self._note(value)
                refers = refers or not _REFERENCES.isdisjoint(value)
                inner_id = inner_id or (depth > 0 and "$id" in value and isinstance(value["$id"], str))
            elif kind is list or kind is tuple:
                below = depth + 1
                waiting += [(member, below) for member in value]
            if depth > _DEEPEST:
                raise SchemaError(f"nests deeper than {_DEEPEST} levels")
            if characters > _MOST_CHARACTERS or values + len(waiting) > _MOST_STEPS:
                raise SchemaError(f"is larger than {_MOST_CHARACTERS} characters or {_MOST_STEPS} values")
        if inner_id and refers:
            raise SchemaError("has documents with addresses of their own inside")

    def _note(self, schema: Mapping[str, Any]) -> None:
        for word in _LISTS:
            if word in schema and isinstance(several := schema[word], list):
                self._reports += len(several)
        for word in _ANCHORS:
            if word in schema and isinstance(name := schema[word], str):
                self._anchors[name] = schema

    def _steps(self, node: Any, depth: int) -> int:
        if depth > _DEEPEST:
            raise SchemaError(f"nests deeper than {_DEEPEST} levels when its references are followed")
        kind = type(node)
        if kind is list:
            return self._within(sum(self._steps(one, depth + 1) for one in node))
        if kind is not dict and not isinstance(node, Mapping):
            return 0
        key = id(node)
        if key in self._open:
            self.recursive = True
            return 1
        if key not in self._known:
            self._open.add(key)
            total = 1
            for word, value in node.items():
                total = self._within(total + self._of_word(word, value, depth + 1))
            if any(node.get(word, True) is not True for word in _LEFT_OVER):
                # What is left over is known when everything beside was applied once more.
                total = self._within(2 * total)
            self._open.discard(key)
            self._known[key] = total
        return self._known[key]

    def _of_word(self, word: str, value: Any, depth: int) -> int:
        if word in _REFERENCES and isinstance(value, str):
            return self._steps(self.target(value), depth)
        if word in _DATA:
            return _size(value, _MOST_STEPS, characters=False) // 4 if word == "enum" else 0
        if word in _APART:
            return 0
        if word == "pattern":
            self._patterned = True
            return pattern_weight(value) // 8
        if word in _MAPS and isinstance(value, Mapping):
            self._patterned = self._patterned or word == "patternProperties"
            weight = sum(map(pattern_weight, value)) // 8 if word == "patternProperties" else 0
            return weight + self._within(sum(self._steps(one, depth) for one in value.values()))
        return self._steps(value, depth)

    @staticmethod
    def _within(total: int) -> int:
        if total > _MOST_STEPS:
            raise SchemaError(f"is more than {_MOST_STEPS} schemas when its references are followed")
        return total

    def target(self, reference: str) -> Any:
        """What a reference in it points at; None where there is nothing."""
        name = reference.partition("#")[2]
        return self._anchors[name] if name in self._anchors else target_of(self._root, reference)

    def admits(self, value: Any) -> bool:
        """Whether a validator is through with ``value`` after a bounded number of steps."""
        if _size(value, self.most_bytes, characters=self._patterned) <= self.most_bytes:
            return True
        steps = 0
        waiting: list[tuple[Any, Any]] = [(self._root, value)]
        while waiting:
            schema, here = waiting.pop()
            steps += 1
            if isinstance(schema, Mapping):
                for cost, more in self._applied(schema, here):
                    steps += cost
                    if steps > _MOST_CHECKS:
                        return False
                    waiting += more
            if steps + len(waiting) > _MOST_CHECKS:
                return False
        return True

    def explains(self, value: Any) -> bool:
        """Whether all that is wrong with ``value`` can be told in bounded time; if not, the first thing can.

        A validator gives each mistake with a copy of what it is in.
        """
        if not self._reports:
            return True
        most = _MOST_REPORTS // self._reports
        return _size(value, most, characters=False) <= most

    def _applied(self, schema: Mapping[str, Any], value: Any) -> Iterator[_Work]:
        """Costs, and the schemas that apply next with what each applies to."""
        for word in _REFERENCES & schema.keys():
            if isinstance(schema[word], str):
                yield 1, ((self.target(schema[word]), value),)
        for word in _EVERY:
            if isinstance(several := schema.get(word), list):
                yield len(several), ((one, value) for one in several)
        yield 1, [(schema[word], value) for word in _SAME if word in schema]
        if any(schema.get(word, True) is not True for word in _LEFT_OVER):
            yield 1, [({word: one for word, one in schema.items() if word not in _LEFT_OVER}, value)]
        if isinstance(listed := schema.get("enum"), list):
            yield len(listed), ()
        if isinstance(value, str):
            yield len(value) * pattern_weight(schema.get("pattern")) // 1024, ()
        elif isinstance(value, Mapping):
            yield from _of_members(schema, value)
        elif isinstance(value, (list, tuple)):
            yield from _of_items(schema, value)


def _size(value: Any, most: int, *, characters: bool) -> int:
    """Members and items in ``value``, and ``characters`` if asked; something above ``most`` when there are more."""
    size, waiting = 1, [value]
    while waiting and size <= most:
        one = waiting.pop()
        if isinstance(one, str):
            size += len(one) if characters else 0
        elif isinstance(one, (Mapping, list, tuple)):
            size += _PER_CONTAINER + len(one)
            inside = [*one, *one.values()] if isinstance(one, Mapping) else one
            waiting += [inner for inner in inside if type(inner) not in _SCALARS]
    return size


def _of_members(schema: Mapping[str, Any], value: Mapping[str, Any]) -> Iterator[_Work]:
    for word in ("dependentSchemas", "dependencies"):
        if isinstance(dependent := schema.get(word), Mapping):
            yield len(dependent), ((one, value) for one in dependent.values())
    named = schema.get("properties")
    named = named if isinstance(named, Mapping) else {}
    yield len(named), ((one, value[name]) for name, one in named.items() if name in value)
    if isinstance(patterns := schema.get("patternProperties"), Mapping):
        characters = sum(map(len, value))
        for pattern, one in patterns.items():
            cost = len(value) + characters * pattern_weight(pattern) // 1024
            yield cost, zip(repeat(one), value.values(), strict=False)
    for word in ("additionalProperties", "unevaluatedProperties"):
        if isinstance(others := schema.get(word), Mapping):
            yield len(value), zip(repeat(others), (value[name] for name in value if name not in named), strict=False)
    if "propertyNames" in schema:
        yield len(value), zip(repeat(schema["propertyNames"]), value, strict=False)


def _of_items(schema: Mapping[str, Any], value: Sequence[Any]) -> Iterator[_Work]:
    if schema.get("uniqueItems"):
        yield len(value), ()
    for word in ("prefixItems", "items"):
        if isinstance(first := schema.get(word), list):
            yield len(first), zip(first, value, strict=False)
    for word in ("items", "additionalItems", "contains", "unevaluatedItems"):
        if isinstance(each := schema.get(word), Mapping):
            yield len(value), zip(repeat(each), value, strict=False)


def schema_problem(schema: Any) -> str:
    """Why nobody reads ``schema``: how it is over the bounds; ``""`` when it can be read, or is none."""
    try:
        if isinstance(schema, Mapping):
            SchemaBounds(schema)
    except SchemaError as exc:
        return str(exc)
    return ""
