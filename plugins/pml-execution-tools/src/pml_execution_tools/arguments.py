"""Check a call against the tool's own definition, with messages that tell the caller what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pml_hookspecs import InvalidArguments

KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "string": ("a string", (str,)),
    "number": ("a number", (int, float)),
    "integer": ("a whole number", (int, float)),
    "boolean": ("true or false", (bool,)),
}
LONGEST_TEXT, LONGEST_SHOWN = 10_000, 64
"""Longest text, and longest name that a message repeats [characters]."""


def checked(definition: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """``arguments`` with defaults filled in; a null counts as left out, and what has no default is None.

    Raises:
        InvalidArguments: Names every mistake.
    """
    schema = definition["inputSchema"]
    rules = schema["properties"]
    given = {name: value for name, value in arguments.items() if value is not None}
    problems = [_unknown(name, rules) for name in given if name not in rules]
    problems += [f"{name!r} is missing" for name in schema.get("required", ()) if name not in given]
    for name, rule in rules.items():
        if name in given:
            problems += _problems(name, given[name], rule)
    if problems:
        raise InvalidArguments(f"{definition['name']}: {'; '.join(problems)}.")
    return {name: _made(given.get(name, rule.get("default")), rule) for name, rule in rules.items()}


def _unknown(name: str, rules: Mapping[str, Any]) -> str:
    import difflib

    near = difflib.get_close_matches(name[:LONGEST_SHOWN], rules, n=1)
    said = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(rules)}"
    return f"unknown parameter {name[:LONGEST_SHOWN]!r}; {said}"


def _problems(name: str, value: Any, rule: Mapping[str, Any]) -> Iterator[str]:
    expected, types = KINDS[rule["type"]]
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types) or _is_broken(value, rule):
        yield f"{name!r} must be {expected}, not {_shown(value)}"
    elif "enum" in rule and value not in rule["enum"]:
        yield f"{name!r} must be one of {', '.join(rule['enum'])}, not {_shown(value)}"
    elif isinstance(value, str) and len(value) > LONGEST_TEXT:
        yield f"{name!r} has {len(value)} characters; at most {LONGEST_TEXT}"
    elif "minimum" in rule and not rule["minimum"] <= value <= rule["maximum"]:
        yield f"{name!r} must be from {rule['minimum']} to {rule['maximum']}, not {value}"


def _is_broken(value: Any, rule: Mapping[str, Any]) -> bool:
    return rule["type"] == "integer" and isinstance(value, float) and not value.is_integer()


def _made(value: Any, rule: Mapping[str, Any]) -> Any:
    """JSON Schema takes 20.0 for an integer, Python does not."""
    return int(value) if isinstance(value, float) and rule["type"] == "integer" else value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"  # noqa: PLR2004 - enough to recognise it
