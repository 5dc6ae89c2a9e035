"""Arguments for a tool, made of its schema: good ones, odd ones, and wrong ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jail import WORK

GOOD, ODD, WRONG = "good", "odd", "wrong"
_TEXTS: Mapping[str, object] = {
    "path": f"{WORK}/note.md", "file": f"{WORK}/note.md", "dir": WORK, "folder": WORK, "repo": WORK,
    "url": "http://127.0.0.1:9/page", "uri": f"file://{WORK}/page.html", "query": "select 1", "sql": "select 1",
    "pattern": "note", "timezone": "UTC", "date": "2026-01-01", "time": "12:30", "email": "ada@example.com",
    "expression": "1 + 2", "command": "pwd", "language": "en", "code": "const a = 1;\n", "content": "Some text.\n",
}  # fmt: skip
"""What a text is, by what its name has in it; the first that fits."""
_DEPTH = 6


@dataclass(frozen=True)
class Call:
    """One call of a tool."""

    tool: str
    kind: str
    """``good``, ``odd`` or ``wrong``."""
    label: str
    arguments: Mapping[str, Any]

    @property
    def title(self) -> str:
        """What it is called in reports."""
        return f"{self.tool}: {self.label}"


def _resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    for _ in range(_DEPTH):
        if not isinstance(schema, dict):
            return {}
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/"):
            found: Any = root
            for step in reference[2:].split("/"):
                found = found.get(step, {}) if isinstance(found, dict) else {}
            schema = found
            continue
        choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
        if not choices or "type" in schema:
            return schema
        real = [choice for choice in choices if isinstance(choice, dict) and choice.get("type") != "null"]
        schema = {**{name: value for name, value in schema.items() if not name.endswith("Of")}, **(real or [{}])[0]}
    return {}


def _kind(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "string")
    return kind if isinstance(kind, str) else "object" if "properties" in schema else "string"


def _text(name: str, schema: Mapping[str, Any]) -> str:
    by_format = {"date-time": "2026-01-01T12:00:00Z", "date": "2026-01-01", "uri": "http://127.0.0.1:9/page"}
    found = by_format.get(str(schema.get("format"))) or next(
        (str(text) for part, text in _TEXTS.items() if part in name.lower()), "one"
    )
    found = found.ljust(int(schema.get("minLength", 0)), "x")
    return found[: int(schema["maxLength"])] if "maxLength" in schema else found


def value(name: str, schema: Any, root: Mapping[str, Any], depth: int = 0) -> Any:
    """A value that the schema allows, the same each time."""
    schema = _resolved(schema, root)
    for given in (schema.get("examples"), schema.get("enum"), [schema["const"]] if "const" in schema else None):
        if isinstance(given, list) and given:
            return given[0]
    if schema.get("default") is not None:
        return schema["default"]
    kind = _kind(schema)
    if kind in ("integer", "number"):
        low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
        return min(low, schema.get("maximum", low))
    if kind == "array":
        count = max(1, int(schema.get("minItems", 1)))
        return [value(name, schema.get("items", {}), root, depth + 1)] * count if depth < _DEPTH else []
    if kind == "object":
        return members(schema, root, depth + 1, every=False) if depth < _DEPTH else {}
    return False if kind == "boolean" else _text(name, schema)


def members(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0, *, every: bool) -> dict[str, Any]:
    """The members that are required, or all of them."""
    properties = schema.get("properties") or {}
    names = properties if every else [name for name in schema.get("required") or () if name in properties]
    return {name: value(name, properties[name], root, depth) for name in names}


def agreed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What fills a form, with yes where it asks for yes or no."""
    found = members(schema, schema, every=True)
    return {name: True if given is False else given for name, given in found.items()}


def _as_text(_: Mapping[str, Any], found: Any) -> object:
    return json.dumps(found) if isinstance(found, int | float | list | dict) else None


def _misfit(_: Mapping[str, Any], found: Any) -> object:
    return [] if isinstance(found, dict | bool) else {"not": "this"}


def _changed(
    arguments: Mapping[str, Any], properties: Mapping[str, Any], change: Callable[[Mapping[str, Any], Any], object]
) -> dict[str, Any] | None:
    """The arguments with every member replaced that the change has something else for."""
    new = {name: other for name, found in arguments.items() if (other := change(properties[name], found)) is not None}
    return {**arguments, **new} if new else None


def _variants(tool: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any] | None]]:
    schema = tool.get("inputSchema") or {}
    properties = schema.get("properties") or {}
    required = [name for name in schema.get("required") or () if name in properties]
    few, many = members(schema, schema, every=False), members(schema, schema, every=True)
    optional = [name for name in properties if name not in required]
    yield GOOD, "what is required", few
    yield GOOD, "everything", many
    yield ODD, "numbers, lists and objects as text", _changed(many, properties, _as_text)
    yield ODD, "null for what is optional", {**few, **dict.fromkeys(optional)} if optional else None
    yield ODD, "an unknown member", {**few, "unknown_member": 1}
    for name in required:
        if isinstance(properties[name], dict) and "default" in properties[name]:
            yield ODD, f"{name} left out, which has a default", {k: v for k, v in few.items() if k != name}
    yield WRONG, "nothing", {} if required else None
    yield WRONG, f"{required[-1]} left out" if required else "", {n: few[n] for n in required[:-1]} or None
    yield WRONG, "another type for each", _changed(many, properties, _misfit)


def planned(tool: Mapping[str, Any], examples: Sequence[Mapping[str, Any]] = ()) -> list[Call]:
    """All calls of a tool, no two with the same arguments; what is known to work comes first."""
    name = str(tool["name"])
    wanted = [(GOOD, f"example {number}", found) for number, found in enumerate(examples, 1)]
    calls: dict[str, Call] = {}
    for kind, label, arguments in (*wanted, *_variants(tool)):
        if arguments is not None:
            calls.setdefault(json.dumps(arguments, sort_keys=True), Call(name, kind, label, arguments))
    return list(calls.values())
