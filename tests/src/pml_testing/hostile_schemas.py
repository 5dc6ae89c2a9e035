"""Schemas that a bad server may list: more work than they look, or nothing that anybody expects.

Whoever reads schemas is held to :data:`MOST_CALLS` and :data:`MOST_BYTES` for each, and gives no pattern of theirs to
:mod:`re`.
"""

from __future__ import annotations

import contextlib
import json
import re
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

from .work import TooMuchWork, counted

MOST_CALLS = 500_000
"""Calls of functions that one reader may make for one schema: some 50 ms."""
MOST_BYTES = 20 * 1024 * 1024
"""Memory that it may take at once."""
TOO_FEW_CALLS = 1_000
"""With which nobody takes that much."""
SHORT = 10_000

Schema = dict[str, Any]
LONG = "a" * 30 + "!"
BACKTRACKING = r"^(a+)+$"


def _chain(word: str, levels: int, times: int) -> Schema:
    """Definitions of each of which ``times`` refer to the next: ``times ** levels`` when they are followed."""
    made: Schema = {f"d{i}": {word: [{"$ref": f"#/$defs/d{i + 1}"}] * times} for i in range(levels)}
    made[f"d{levels}"] = {"type": "object", "properties": {"a": {"type": "string"}}}
    return {"type": "object", "$ref": "#/$defs/d0", "$defs": made}


def _nested(word: str, levels: int, *, listed: bool) -> Schema:
    inner: Any = {"type": "object"}
    for _ in range(levels):
        inner = {word: [inner]} if listed else {word: inner}
    return {"type": "object", **inner}


def _wide_chain(levels: int, times: int) -> Schema:
    """Properties of objects of which each has ``times`` more of the next kind."""
    made: Schema = {
        f"d{i}": {"type": "object", "properties": {f"p{j}": {"$ref": f"#/$defs/d{i + 1}"} for j in range(times)}}
        for i in range(levels)
    }
    made[f"d{levels}"] = {"type": "string"}
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": made}


def _self(**more: Any) -> Schema:
    return {"type": "object", **more}


def _required_of_itself(count: int) -> Schema:
    names = [f"p{i}" for i in range(count)]
    return _self(properties={name: {"$ref": "#"} for name in names}, required=names)


def _with(schema: Any, name: str = "a") -> Schema:
    return {"type": "object", "properties": {name: schema}, "required": [name]}


ME: Schema = {"$ref": "#"}
HOSTILE: Mapping[str, Callable[[], Schema]] = {
    "all_of doubled 30 times": lambda: _chain("allOf", 30, 2),
    "any_of doubled 30 times": lambda: _chain("anyOf", 30, 2),
    "one_of doubled 30 times": lambda: _chain("oneOf", 30, 2),
    "all_of times ten, 9 levels": lambda: _chain("allOf", 9, 10),
    "all_of nested 600 deep": lambda: _nested("allOf", 600, listed=True),
    "all_of nested 60 deep": lambda: _nested("allOf", 60, listed=True),
    "not nested 600 deep": lambda: _nested("not", 600, listed=False),
    "items nested 600 deep": lambda: _nested("items", 600, listed=False),
    "properties nested 300 deep": lambda: _nested_properties(300),
    "itself": lambda: _self(**ME),
    "all_of itself": lambda: _self(allOf=[ME]),
    "all_of itself, four times": lambda: _self(allOf=[ME] * 4),
    "any_of itself, four times": lambda: _self(anyOf=[ME] * 4),
    "one_of itself, eight times": lambda: _self(oneOf=[ME] * 8),
    "any_of and all_of itself": lambda: _self(anyOf=[ME, {"type": "null"}], allOf=[ME, {"anyOf": [ME, ME]}]),
    "80 properties that are itself": lambda: _self(properties={f"p{i}": ME for i in range(80)}),
    "80 required properties that are itself": lambda: _required_of_itself(80),
    "items that are itself": lambda: _with({"type": "array", "minItems": 3, "items": ME}),
    "first items that are itself": lambda: _with({"type": "array", "prefixItems": [ME] * 40}),
    "other members that are itself": lambda: _self(additionalProperties=ME, minProperties=3),
    "any_of objects that are itself, 6 levels": lambda: _wide_chain(6, 12),
    "properties times twenty, 5 levels": lambda: _wide_chain(5, 20),
    "two definitions that refer to each other": lambda: {
        "type": "object",
        "$ref": "#/$defs/a",
        "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}] * 3}, "b": {"anyOf": [{"$ref": "#/$defs/a"}] * 3}},
    },
    "a tree with eight ways to read it": lambda: _self(anyOf=[{"properties": {"a": ME, "b": ME}}] * 8),
    "left over members of left over members": lambda: _defined(
        24, lambda n: {"allOf": [n], "unevaluatedProperties": False}
    ),
    "conditions within conditions": lambda: _defined(20, lambda n: {"if": n, "then": n, "else": n}),
    "dependent schemas that are itself": lambda: _self(dependentSchemas={f"p{i}": ME for i in range(60)}),
    "anchors that refer to each other": lambda: {
        "type": "object",
        "$ref": "#x",
        "$defs": {
            "a": {"$anchor": "x", "allOf": [{"$ref": "#y"}] * 4},
            "b": {"$anchor": "y", "anyOf": [{"$ref": "#x"}] * 4},
        },
    },
    "dynamic references to itself": lambda: _self(
        **{"$dynamicAnchor": "me"}, allOf=[{"$dynamicRef": "#me"}] * 4, properties={"a": {"$dynamicRef": "#me"}}
    ),
    "references by its own address": lambda: {**_self(allOf=[{"$ref": "https://x.example/s"}] * 4), "$id": "https://x.example/s"},
    "a reference of 100,000 steps, 50 times": lambda: _self(
        properties={f"p{i}": {"$ref": "#" + "/properties/p0" * 200} for i in range(50)}
    ),
    "a chain of 5,000 references": lambda: {
        "type": "object",
        "$ref": "#/$defs/d0",
        "$defs": {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(5000)},
    },
    "a pattern that backtracks": lambda: _with({"type": "string", "pattern": BACKTRACKING, "default": LONG}),
    "an example for a pattern that backtracks": lambda: _with(
        {"type": "string", "pattern": r"^(\w+\s?)*$", "examples": ["word " * 20 + "!", LONG]}
    ),
    "a pattern that looks around and backtracks": lambda: _with(
        {"type": "string", "pattern": r"^(?=(a+)+$)b", "default": LONG, "enum": [LONG, LONG + "x"]}
    ),
    "a pattern that refers back": lambda: _with(
        {"type": "string", "pattern": r"^(a+)\1+(a+)\2+b$", "default": "a" * 200}
    ),
    "a pattern of a million states": lambda: _with({"type": "string", "pattern": "((a{100}){100}){100}"}),
    "a thousand large patterns": lambda: _self(
        properties={f"p{i}": {"type": "string", "pattern": rf"^(\w{{90}}){{{i % 9 + 1}}}x$"} for i in range(1000)}
    ),
    "names of members by patterns that backtrack": lambda: _self(
        patternProperties={rf"^(a+)+{i}$": ME for i in range(40)}, additionalProperties=False
    ),
    "a thousand examples": lambda: _with({"anyOf": [{"examples": [LONG] * 1000, "pattern": BACKTRACKING}] * 10}),
    "5,000 choices in each of 20": lambda: _with({"anyOf": [{"enum": list(range(5000))}] * 20}),
    "a choice of large objects": lambda: _with({"enum": [{"a": [i] * 50, "b": {"c": "x" * 50}} for i in range(500)]}),
    "a constant of 100,000 characters, referred to 1,000 times": lambda: {
        "type": "object",
        "properties": {f"p{i}": {"$ref": "#/$defs/c"} for i in range(1000)},
        "$defs": {"c": {"const": "x" * 100_000}},
    },
    "12,000 properties": lambda: _self(properties={f"p{i}": {"type": "integer"} for i in range(12_000)}),
    "all_of 300 parts with 50 properties": lambda: _self(
        allOf=[{"properties": {f"p{j}": {"type": "string"} for j in range(50)}}] * 300
    ),
    "20,000 types": lambda: _with({"type": ["string", "integer"] * 10_000}),
    "10,000 required names": lambda: _self(required=[f"p{i}" for i in range(10_000)]),
    "a description of 1,000,000 characters": lambda: _with({"type": "string", "description": "word " * 200_000}),
    "a name of 200,000 characters": lambda: _with({"type": "string"}, "n" * 200_000),
    "numbers without measure": lambda: _with(
        {"type": "number", "minimum": 10**4000, "maximum": 10**4001, "multipleOf": 1e-300, "default": 10**4000}
    ),
    "lengths without measure": lambda: _with(
        {"type": "array", "minItems": 10**9, "items": {"type": "string", "minLength": 10**9}}
    ),
    "nothing as it should be": lambda: {
        "type": {"a": 1}, "properties": [1], "required": {"a": None}, "allOf": {"$ref": 7}, "anyOf": "x", "enum": 3,
        "items": 5, "$defs": [], "$ref": ["#"], "pattern": {}, "additionalProperties": "no", "oneOf": [None, 1, []],
    },
}  # fmt: skip
"""By name; each is made anew when it is asked for."""


def _nested_properties(levels: int) -> Schema:
    inner: Schema = {"type": "object"}
    for _ in range(levels):
        inner = _with(inner)
    return inner


def _defined(levels: int, one: Callable[[Schema], Schema]) -> Schema:
    """Definitions of each of which ``one`` makes something with the next."""
    made = {f"d{i}": one({"$ref": f"#/$defs/d{i + 1}"}) for i in range(levels)}
    made[f"d{levels}"] = {"type": "object", "properties": {"a": {"type": "string"}}}
    return {"type": "object", "$ref": "#/$defs/d0", "$defs": made}


def short(schema: Schema) -> bool:
    """Whether it has fewer than 10,000 characters as JSON."""
    with contextlib.suppress(RecursionError):
        return len(json.dumps(schema)) < SHORT
    return False


class Cost:
    """What one reader took for one schema."""

    def __init__(self, calls: int, size_bytes: int, searched: Sequence[str]) -> None:
        self.calls, self.size_bytes, self.searched = calls, size_bytes, searched

    @property
    def fair(self) -> bool:
        """Whether it is within the bounds."""
        return self.calls <= MOST_CALLS and self.size_bytes <= MOST_BYTES and not self.searched

    def __repr__(self) -> str:
        searched = f", searched for {self.searched[0]!r}" if self.searched else ""
        return f"{self.calls} calls, {self.size_bytes / 2**20:.1f} MiB{searched}"


def patterns_in(schema: Any) -> set[str]:
    """All texts in a schema that could be meant as a regular expression."""
    found: set[str] = set()
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            patterns = one.get("patternProperties")
            found |= {one["pattern"]} if isinstance(one.get("pattern"), str) else set()
            found |= set(patterns) if isinstance(patterns, Mapping) else set()
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return found


def cost(readers: Sequence[Callable[[Any], Any]], make: Callable[[], Any], patterns: set[str]) -> Cost:
    """What the busiest of ``readers`` takes for a schema, in calls and in memory.

    Whatever a reader raises is its caller's to judge: here it counts as an answer. ``patterns`` are none that Python's
    own engine may look for.
    """
    calls, searched = [], []
    compiled = re._compile  # type: ignore[attr-defined]

    def compiling(pattern: Any, flags: Any) -> Any:
        if pattern in patterns:
            searched.append(pattern)
            raise TooMuchWork(pattern)
        return compiled(pattern, flags)

    with mock.patch.object(re, "_compile", compiling):
        for reader in readers:
            schema = make()
            with contextlib.suppress(TooMuchWork), counted(MOST_CALLS) as work:
                _answer(reader, schema)
            calls.append(work.calls)
    most = max(calls)
    if most < TOO_FEW_CALLS or most > MOST_CALLS or searched:
        return Cost(most, 0, searched)
    schema = make()
    tracemalloc.start()
    try:
        _answer(readers[calls.index(most)], schema)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return Cost(most, peak, searched)


def _answer(reader: Callable[[Any], Any], schema: Any) -> None:
    with contextlib.suppress(Exception):
        reader(schema)


def unfair(*readers: Callable[[Any], Any], given: Callable[[Schema], Any] = dict) -> Iterator[str]:
    """Schemas for which one of ``readers`` took too much, each with what it took.

    Several are one with several values beside the schema: the calls of each are counted, and of the busiest the memory
    is measured, which takes ten times as long. ``given`` makes of a schema what they read, which is not counted; what
    it refuses, nobody reads.
    """
    for name, make in HOSTILE.items():
        try:
            given(make())
        except (RecursionError, ValueError):
            continue
        taken = cost(readers, lambda make=make: given(make()), patterns_in(make()))  # type: ignore[misc]
        if not taken.fair:
            yield f"{name}: {taken}"
