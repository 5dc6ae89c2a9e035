"""What values are made of, learned from some of them: a JSON Schema of names and kinds, without a single value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

DEEPEST = 5
"""Levels that are told."""
MOST_ITEMS = 20
"""Items of one array that are looked at: its first ones."""
MOST_LOOKED_AT = 4_000
"""Values inside one value that are looked at."""
MOST_NAMES = 32
"""Members of one object; one with more has data for names."""
MOST_TOLD = 300
"""Schemas in one."""
LEAST_SEEN = 2
"""Objects that must have a member before it is told: a name that was there once may be somebody's."""
USUAL = 0.5
"""Share of objects that have the commonest member; where it is less, names are data."""
PLAIN_NAME = re.compile(r"[^\W\d][\w$-]{0,31}")
"""What is told as a name: nothing that a sentence, an address or a number fits into."""
DIGITS = re.compile(r"\d{4}")
WIDTHS = (MOST_NAMES, 16, 10, 6, 4, 2, 1)


def is_plain(name: str) -> bool:
    """Whether it is a name that somebody gave a member, and not data, as far as one can tell."""
    return PLAIN_NAME.fullmatch(name) is not None and not DIGITS.search(name)


@dataclass(slots=True)
class Place:
    """What was found at one place of values."""

    kinds: set[str] = field(default_factory=set)
    seen: int = 0
    objects: int = 0
    members: dict[str, Place] = field(default_factory=dict)
    others: Place | None = None
    """What stood under names that are data."""
    items: Place | None = None

    def add(self, value: Any, budget: list[int], depth: int = 0) -> None:
        """Take in one more value.

        Args:
            value: Any JSON.
            budget: How many more values may be looked at; counted down in place.
            depth: Of this place.
        """
        if budget[0] <= 0:
            return
        budget[0] -= 1
        self.seen += 1
        self.kinds.add(kind_of(value))
        if isinstance(value, Mapping):
            self.objects += 1
            if depth < DEEPEST:
                self._add_members(value, budget, depth + 1)
        elif isinstance(value, list) and depth < DEEPEST:
            self.items = self.items or Place()
            for item in value[:MOST_ITEMS]:
                self.items.add(item, budget, depth + 1)

    def _add_members(self, value: Mapping[str, Any], budget: list[int], depth: int) -> None:
        if len(value) > MOST_NAMES or len(self.members) > 2 * MOST_NAMES or not all(map(is_plain, value)):
            self.others = self.others or Place()
            for member in list(value.values())[:MOST_ITEMS]:
                self.others.add(member, budget, depth)
            return
        for name, member in value.items():
            self.members.setdefault(name, Place()).add(member, budget, depth)

    def schema(self, left: list[int] | None = None) -> dict[str, Any]:
        """A JSON Schema that all these values fit; ``{}`` says nothing."""
        left = [MOST_TOLD] if left is None else left
        left[0] -= 1
        if left[0] < 0 or not self.kinds - {"null"}:
            return {}
        parts: list[dict[str, Any]] = []
        if "object" in self.kinds:
            parts.append(self._object(left))
        if "array" in self.kinds:
            inside = self.items.schema(left) if self.items is not None and self.items.seen else {}
            parts.append({"type": "array", **({"items": inside} if inside else {})})
        if scalars := sorted(self.kinds - {"object", "array"}):
            parts.append({"type": scalars[0] if len(scalars) == 1 else scalars})
        return parts[0] if len(parts) == 1 else {"anyOf": parts}

    def _object(self, left: list[int]) -> dict[str, Any]:
        told = {name: place for name, place in self.members.items() if place.seen >= LEAST_SEEN}
        usual = max((place.seen for place in told.values()), default=0)
        if self.others is not None or usual < USUAL * self.objects or not told:
            return {"type": "object"}
        made: dict[str, Any] = {"type": "object", "properties": {}}
        for name, place in told.items():
            made["properties"][name] = place.schema(left)
        if required := [name for name, place in told.items() if place.seen == self.objects]:
            made["required"] = required
        if len(told) < len(self.members) or left[0] < 0:
            made["additionalProperties"] = True
        return made


def kind_of(value: Any) -> str:
    """The JSON type of a value; whole numbers are integers."""
    names = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
    return names.get(type(value), "object" if isinstance(value, Mapping) else "array")


def observed(values: list[Any]) -> dict[str, Any]:
    """A schema of what several values have in common; ``{}`` when there is nothing to tell."""
    place = Place()
    for value in values:
        place.add(value, [MOST_LOOKED_AT])
    return place.schema()


def type_texts(schema: Mapping[str, Any]) -> Iterator[str]:
    """``schema`` as a type of TypeScript, whole first and then with less of it; nothing where it says nothing.

    What is inside of members is given up before their names.
    """
    for width in WIDTHS:
        for depth in range(DEEPEST, 0, -1):
            text = _written(schema, depth, width)
            if text not in ("any", "object", "any[]", "object[]"):
                yield text


def _written(schema: Mapping[str, Any], depth: int, width: int) -> str:
    if options := schema.get("anyOf"):
        return " | ".join(dict.fromkeys(_written(one, depth, width) for one in options))
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return " | ".join(dict.fromkeys(_simple(kind) for kind in kinds))
    if kinds == "array":
        inside = _written(schema["items"], depth, width) if "items" in schema else "any"
        return f"({inside})[]" if " | " in inside and not inside.endswith("}") else f"{inside}[]"
    if kinds != "object":
        return _simple(kinds)
    properties = schema.get("properties")
    if not depth or not properties:
        return "object"
    required = schema.get("required", ())
    parts = [
        f"{_key(name)}{'' if name in required else '?'}: {_written(of, depth - 1, width)}"
        for name, of in list(properties.items())[:width]
    ]
    if len(properties) > width or "additionalProperties" in schema:
        parts.append("[more: string]: any")
    return "{" + ", ".join(parts) + "}"


def _simple(kind: Any) -> str:
    return {"integer": "number"}.get(kind, kind) if isinstance(kind, str) else "any"


def _key(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name, ensure_ascii=False)
