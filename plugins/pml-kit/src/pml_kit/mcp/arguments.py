"""Checks a call against a tool's own flat definition, with messages that tell the caller what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pml_hookspecs import InvalidArguments

KINDS: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "string": ("a string", (str,)),
    "number": ("a number", (int, float)),
    "integer": ("a whole number", (int, float)),
    "boolean": ("true or false", (bool,)),
    "array": ("an array of strings", (list, tuple)),
}
LONGEST_SHOWN, MOST_SHOWN = 64, 40
"""Longest name, and most of a value, that a message repeats [characters]."""


def checked(
    definition: Mapping[str, Any], arguments: Mapping[str, Any], *, longest: int | None = None
) -> dict[str, Any]:  # fmt: skip
    """``arguments`` with defaults filled in; a null counts as left out, and what has no default is None.

    Args:
        definition: Of a tool whose parameters are texts, numbers, truth values and arrays of texts.
        arguments: As the client gives them.
        longest: Longest text that is taken [characters]; None for any.

    Raises:
        InvalidArguments: Names every mistake, and the tool.
    """
    schema = definition["inputSchema"]
    rules = schema["properties"]
    given = {name: value for name, value in arguments.items() if value is not None}
    problems = [_unknown(name, rules) for name in given if name not in rules]
    problems += [f"{name!r} is missing" for name in schema.get("required", ()) if name not in given]
    for name, rule in rules.items():
        if name in given:
            problems += _problems(name, given[name], rule, longest)
    if problems:
        raise InvalidArguments(f"{definition['name']}: {'; '.join(problems)}.")
    return {name: _made(given.get(name, rule.get("default")), rule) for name, rule in rules.items()}


def _unknown(name: str, rules: Mapping[str, Any]) -> str:
    import difflib

    near = difflib.get_close_matches(name[:LONGEST_SHOWN], rules, n=1)
    said = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(rules)}"
    return f"unknown parameter {name[:LONGEST_SHOWN]!r}; {said}"


def _problems(name: str, value: Any, rule: Mapping[str, Any], longest: int | None) -> Iterator[str]:
    expected, types = KINDS[rule["type"]]
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types) or _is_broken(value, rule):
        yield f"{name!r} must be {expected}, not {_shown(value)}"
    elif "enum" in rule and value not in rule["enum"]:
        yield f"{name!r} must be one of {', '.join(rule['enum'])}, not {_shown(value)}"
    elif isinstance(value, str) and longest is not None and len(value) > longest:
        yield f"{name!r} has {len(value)} characters; at most {longest}"
    elif "maximum" in rule and not rule["minimum"] <= value <= rule["maximum"]:
        yield f"{name!r} must be from {rule['minimum']} to {rule['maximum']}, not {value}"
    elif "minimum" in rule and value < rule["minimum"]:
        yield f"{name!r} must be {rule['minimum']} or more, not {value}"


def _is_broken(value: Any, rule: Mapping[str, Any]) -> bool:
    if rule["type"] == "array":
        return not all(isinstance(item, str) and item for item in value)
    return rule["type"] == "integer" and isinstance(value, float) and not value.is_integer()


def _made(value: Any, rule: Mapping[str, Any]) -> Any:
    """JSON Schema takes 20.0 for an integer, Python does not."""
    return int(value) if isinstance(value, float) and rule["type"] == "integer" else value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"
