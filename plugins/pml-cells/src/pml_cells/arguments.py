"""Checks a call against the tool's own definition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .errors import NotebookError, shown

_KINDS: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "string": ("a string", (str,)),
    "integer": ("a whole number", (int,)),
    "array": ("an array of strings", (list, tuple)),
}


def checked(definition: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """``arguments`` with defaults filled in; a null counts as left out, and what is left out is None.

    Raises:
        NotebookError: Names every mistake.
    """
    schema = definition["inputSchema"]
    rules = schema["properties"]
    given = {name: value for name, value in arguments.items() if value is not None}
    problems = [f"there is no parameter {shown(name)}, only {', '.join(rules)}" for name in given if name not in rules]
    problems += [f"{name} is missing" for name in schema["required"] if name not in given]
    for name, rule in rules.items():
        if name in given:
            problems += _problems(name, given[name], rule)
    if problems:
        raise NotebookError("; ".join(problems))
    return {name: given.get(name, rule.get("default")) for name, rule in rules.items()}


def _problems(name: str, value: Any, rule: Mapping[str, Any]) -> Iterator[str]:
    expected, types = _KINDS[rule["type"]]
    fits = isinstance(value, types) and not isinstance(value, bool)
    if fits and rule["type"] == "array":
        fits = all(isinstance(item, str) and item for item in value)
    if not fits:
        yield f"{name} must be {expected}, not {shown(value)}"
    elif "enum" in rule and value not in rule["enum"]:
        yield f"{name} must be one of {', '.join(rule['enum'])}, not {shown(value)}"
    elif "minimum" in rule and value < rule["minimum"]:
        yield f"{name} must be {rule['minimum']} or more, not {value}"
