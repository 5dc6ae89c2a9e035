"""Check a call against the tool's own definition, with messages that tell the caller what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pml_hookspecs import InvalidArguments
from pml_kit.plain import parsed

ARTICLES = {"string": "a string", "integer": "a whole number", "object": "an object", "boolean": "true or false"}
LONGEST_TEXT, LONGEST_SHOWN = 10_000, 64
"""Longest text, and longest name that a message repeats [characters]."""


def checked(definition: Mapping[str, Any], arguments: Mapping[str, Any], *, advice: str = "") -> dict[str, Any]:
    """``arguments`` with defaults filled in; a null counts as left out, and what has no default is None.

    Args:
        definition: The tool's; of its ``inputSchema`` only types, enumerations and bounds at the top are looked at.
        advice: What to do about unknown parameters.

    Raises:
        InvalidArguments: Names every mistake.
    """
    schema = definition["inputSchema"]
    rules = schema["properties"]
    given = {name: _read(value, rules.get(name)) for name, value in arguments.items() if value is not None}
    problems = [_unknown(name, rules) for name in given if name not in rules]
    if problems and advice:
        problems.append(advice)
    problems += [f"{name!r} is missing" for name in schema.get("required", ()) if name not in given]
    problems += [
        problem for name, rule in rules.items() if name in given for problem in _problems(name, given[name], rule)
    ]
    if problems:
        raise InvalidArguments(f"{definition['name']}: {'; '.join(problems)}.")
    return {name: _made(given.get(name, rule.get("default")), rule) for name, rule in rules.items()}


def _read(value: Any, rule: Mapping[str, Any] | None) -> Any:
    return parsed(value) if rule is not None and rule.get("type") == "object" else value


def _unknown(name: str, rules: Mapping[str, Any]) -> str:
    import difflib

    near = difflib.get_close_matches(name[:LONGEST_SHOWN], rules, n=1)
    said = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(rules)}"
    return f"unknown parameter {name[:LONGEST_SHOWN]!r}; {said}"


def _problems(name: str, value: Any, rule: Mapping[str, Any]) -> Iterator[str]:
    if "enum" in rule:
        if value not in rule["enum"]:
            yield f"{name!r} must be {' or '.join(repr(choice) for choice in rule['enum'])}, not {_shown(value)}"
    elif not _is(value, rule["type"]):
        yield f"{name!r} must be {ARTICLES[rule['type']]}, not {_shown(value)}"
    elif isinstance(value, str) and len(value) > LONGEST_TEXT:
        yield f"{name!r} has {len(value)} characters; at most {LONGEST_TEXT}"
    elif "minimum" in rule and not rule["minimum"] <= value <= rule["maximum"]:
        yield f"{name!r} must be from {rule['minimum']} to {rule['maximum']}, not {value}"


def _is(value: Any, kind: str) -> bool:
    if kind == "integer":
        whole = isinstance(value, int) and not isinstance(value, bool)
        return whole or (isinstance(value, float) and value.is_integer())
    return isinstance(value, {"string": str, "object": Mapping, "boolean": bool}[kind])


def _made(value: Any, rule: Mapping[str, Any]) -> Any:
    """JSON Schema takes 8.0 for an integer, Python does not."""
    return int(value) if isinstance(value, float) and rule.get("type") == "integer" else value


def _shown(value: Any) -> str:
    text = repr(dict(value) if isinstance(value, Mapping) else value)
    return text if len(text) <= 40 else f"{text[:40]}…"  # noqa: PLR2004 - enough to recognise it
