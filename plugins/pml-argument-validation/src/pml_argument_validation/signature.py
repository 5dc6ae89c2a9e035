"""A tool's parameters on one line, as a reminder beside a list of mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pml_hookspecs import encode

MOST_CHARACTERS = 600
MOST_CHOICES = 8


def signature(schema: Mapping[str, Any]) -> str:
    """``path: string, head?: integer = 10, mode?: "r" | "w"``; ``none`` when the schema names no parameter."""
    named = schema.get("properties")
    required = schema.get("required")
    if not isinstance(named, Mapping) or not named:
        return "none"
    wanted = required if isinstance(required, list) else []
    parts: list[str] = []
    length = 0
    for name in sorted(named, key=lambda name: name not in wanted):
        part = f"{name}{'' if name in wanted else '?'}: {type_of(named[name])}{_default(named[name])}"
        length += len(part) + len(", ")
        if length > MOST_CHARACTERS:
            return ", ".join([*parts, f"… ({len(named) - len(parts)} more)"])
        parts.append(part)
    return ", ".join(parts)


def type_of(schema: Any, depth: int = 0) -> str:
    """What ``schema`` expects: ``string``, ``integer[]``, ``"a" | "b"``; ``any`` when it says little."""
    if not isinstance(schema, Mapping):
        return "any"
    listed = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(listed, list) and listed:
        shown = [short(value) for value in listed[:MOST_CHOICES]]
        return " | ".join([*shown, "…"] if len(listed) > MOST_CHOICES else shown)
    for key in ("anyOf", "oneOf"):
        choices = schema.get(key)
        if isinstance(choices, list) and choices and depth == 0:
            return " | ".join(dict.fromkeys(type_of(choice, 1) for choice in choices[:MOST_CHOICES]))
    types = schema.get("type", "any")
    if types == "array" and depth == 0:
        inner = type_of(schema.get("items"), 1)
        return f"({inner})[]" if " " in inner else f"{inner}[]"
    return " | ".join(map(str, types)) if isinstance(types, list) else str(types)


def _default(schema: Any) -> str:
    return f" = {short(schema['default'])}" if isinstance(schema, Mapping) and "default" in schema else ""


def short(value: Any, most: int = 40) -> str:
    """``value`` as JSON, cut after ``most`` characters."""
    try:
        text = encode(value).decode()
    except (RecursionError, TypeError):
        text = type(value).__name__
    return text if len(text) <= most else f"{text[:most]}…"
