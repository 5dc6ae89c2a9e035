"""A tool's parameters on one line, as a reminder beside a list of mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pml_hookspecs import encode
from pml_kit.schema.type_tree import Array, Const, Object, Type, Union, read

MOST_CHARACTERS = 600
MOST_CHOICES = 8
MOST_READ = 2_000
"""Choices of which the first are told."""
DEEPEST = 3
MOST_STEPS = 200
"""Of reading one parameter, of which every mistake may tell another."""


def signature(schema: Mapping[str, Any]) -> str:
    """``path: string, head?: integer = 10, mode?: "r" | "w"``; ``none`` when the schema names no parameter."""
    type_ = read(schema, deepest=DEEPEST, most_choices=MOST_READ)
    members = type_.members if isinstance(type_, Object) else ()
    parts: list[str] = []
    length = 0
    for member in sorted(members, key=lambda member: not member.required):
        part = f"{member.name}{'' if member.required else '?'}: {_text(member.type)}"
        part += f" = {_cut(member.default)}" if member.default else ""
        length += len(part) + len(", ")
        if length > MOST_CHARACTERS:
            return ", ".join([*parts, f"… ({len(members) - len(parts)} more)"])
        parts.append(part)
    return ", ".join(parts) or "none"


def expected(schema: Any, root: Any) -> str:
    """What ``schema``, of ``root``, expects: ``string``, ``integer[]``, ``"a" | "b"``; ``any`` when it says little."""
    return _text(read(schema, root=root, deepest=DEEPEST, most_steps=MOST_STEPS, most_choices=MOST_READ))


def _text(type_: Type) -> str:
    match type_:
        case Const(value=value):
            return short(value)
        case Array(items=items):
            inner = _text(items)
            return f"({inner})[]" if " " in inner else f"{inner}[]"
        case Union(members=several):
            texts = [_text(one) for one in several[:MOST_CHOICES]]
            return " | ".join([*dict.fromkeys(texts), *(["…"] if len(several) > MOST_CHOICES else [])])
        case Object():
            return "object"
    return type_


def short(value: Any, most: int = 40) -> str:
    """``value`` as JSON, cut after ``most`` characters."""
    try:
        text = encode(value).decode()
    except (RecursionError, TypeError):
        text = type(value).__name__
    return _cut(text, most)


def _cut(text: str, most: int = 40) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
