"""Values of another type that servers may convert: only they can judge them, so no plan is refused for one."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from pml_kit.schema.members import part_at, required

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

TRUTHS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "t", "f", "1", "0"})
"""Texts that are read as a boolean."""
NUMBERS = frozenset({"integer", "number"})


def may_be_taken(found: ValidationError, schema: Mapping[str, Any]) -> bool:
    """Whether a server may take the value that ``found`` is about, as one of another type or for none.

    Args:
        found: Of one value, of any kind.
        schema: The whole, by which it was found.
    """
    value, facts = found.instance, found.kind.as_dict()
    if value is None:
        return _is_optional(found, schema)
    if found.kind.name == "type":
        return reads_as(value, facts["types"])
    options = {"enum": facts.get("options"), "const": [facts.get("expected_value")]}.get(found.kind.name)
    return options is not None and isinstance(value, str) and _parsed(value) in options


def reads_as(value: Any, types: Collection[str]) -> bool:
    """Whether ``value``, of none of ``types``, reads as one of them: ``"5"``, ``"true"``, ``"[1]"``, ``1`` for true."""
    if isinstance(value, str):
        return not _readings(value).isdisjoint(types)
    if isinstance(value, bool):
        return not NUMBERS.isdisjoint(types)
    return isinstance(value, (int, float)) and value in (0, 1) and "boolean" in types


def _readings(text: str) -> set[str]:
    found = {"boolean"} if text.strip().lower() in TRUTHS else set()
    try:
        number = float(text)
    except ValueError:
        pass
    else:
        found |= NUMBERS if number.is_integer() else {"number"}
    parsed = _parsed(text)
    return found | {"object" if isinstance(parsed, dict) else "array" if isinstance(parsed, list) else ""}


def _parsed(text: str) -> Any:
    """``text`` read as JSON; itself when it is none."""
    try:
        return json.loads(text)
    except (RecursionError, ValueError):
        return text


def _is_optional(found: ValidationError, schema: Mapping[str, Any]) -> bool:
    """Whether the value belongs to a member that need not be there, or of which that cannot be told."""
    steps, path = list(found.schema_path), list(found.instance_path)
    places = [i for i in range(len(steps) - 1) if path and steps[i] == "properties" and steps[i + 1] == path[-1]]
    if not places:
        return False
    return path[-1] not in required(part_at(schema, steps[: places[-1]]))
