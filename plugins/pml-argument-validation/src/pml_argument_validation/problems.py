"""Turns what a validator finds into sentences that the caller can act on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from pml_kit.schema.members import part_at, properties

from .signature import expected, short

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

MOST_PROBLEMS = 10
MOST_READ = 200
"""Findings that are looked at; a list of a million wrong items has as many."""
MOST_CHARACTERS = 200
MOST_NAMES = 20
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
OF_THE_SCHEMA = ("limit", "pattern", "multiple_of", "format")
"""Facts about a finding that are the schema's, and no part of the value."""
_OF_THE_WHOLE = frozenset(
    ("additionalProperties", "maxItems", "maxProperties", "minItems", "minProperties", "required", "type")
)
"""Keywords that do not look at the values of members, but at which and how many there are."""


class Problem(NamedTuple):
    """One thing that is wrong."""

    path: str
    """JSONPath: ``$.options.tags[2]``."""
    message: str


def relevant(found: Iterable[ValidationError], simulated: Sequence[str]) -> list[ValidationError]:
    """The findings that are the caller's fault.

    Not his are those that a made-up value can be to blame for. ``simulated`` has the JSON Pointers of values that stand
    in for results of a rehearsal.
    """
    limited = islice(found, MOST_READ)
    return [error for error in limited if not any(_explains(pointer, error) for pointer in simulated)]


def _explains(simulated: str, error: ValidationError) -> bool:
    here = "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in error.instance_path)
    if f"{here}/".startswith(f"{simulated}/"):
        return True
    return simulated.startswith(f"{here}/") and error.kind.name not in _OF_THE_WHOLE


def problems(errors: Sequence[ValidationError], schema: Mapping[str, Any], *, values: bool) -> list[Problem]:
    """At most ten and, if there are more, one that says so.

    Args:
        errors: What a validator found.
        schema: By which it judged.
        values: Whether wrong values may be repeated; without, only their types are told.
    """
    told = list(islice(_told(errors, schema, values=values), MOST_PROBLEMS + 1))
    if len(told) > MOST_PROBLEMS:
        told[MOST_PROBLEMS:] = [Problem("$", "there are more problems than these")]
    return told


def _told(errors: Iterable[ValidationError], schema: Mapping[str, Any], *, values: bool) -> Iterator[Problem]:
    for error in errors:
        path = list(error.instance_path)
        facts = error.kind.as_dict()
        match error.kind.name:
            case "required":
                name = facts["property"]
                yield Problem(json_path([*path, name]), f"is missing; expected {_expected(schema, error, name)}")
            case "additionalProperties" | "unevaluatedProperties":
                for name in facts["unexpected"][: MOST_PROBLEMS + 1]:
                    yield Problem(json_path([*path, name]), f"unknown{_hint(name, _known(schema, error))}")
            case "anyOf" | "oneOf" if facts.get("context"):
                yield from _of_choice(error, facts["context"], schema, values=values)
            case _:
                yield Problem(json_path(path), _plain(error, facts) if values else _rule(error, facts))


def _plain(error: ValidationError, facts: Mapping[str, Any]) -> str:
    match error.kind.name:
        case "type":
            return f"{_types(facts)}, not {_kind(error.instance)}"
        case "enum":
            return f"{_options(facts)}; not {short(error.instance)}"
        case "const":
            return f"must be {short(facts['expected_value'])}, not {short(error.instance)}"
    text: str = error.message
    return text if len(text) <= MOST_CHARACTERS else f"{error.kind.name} is not kept by {short(error.instance)}"


def _rule(error: ValidationError, facts: Mapping[str, Any]) -> str:
    """As :func:`_plain`, of the schema's own words alone."""
    match error.kind.name:
        case "type":
            return f"{_types(facts)}, not {_type(error.instance)}"
        case "enum":
            return _options(facts)
        case "const":
            return f"must be {short(facts['expected_value'])}"
    said = [short(facts[name]) for name in OF_THE_SCHEMA if name in facts]
    return " ".join([f"does not keep {error.kind.name}", *said])


def _types(facts: Mapping[str, Any]) -> str:
    return f"must be {' or '.join(_a(name) for name in facts['types'])}"


def _options(facts: Mapping[str, Any]) -> str:
    options = [short(option) for option in facts["options"][:MOST_NAMES]]
    more = ", …" if len(facts["options"]) > MOST_NAMES else ""
    return f"must be one of {', '.join(options)}{more}"


def _of_choice(
    error: ValidationError, branches: list[list[ValidationError]], schema: Mapping[str, Any], *, values: bool
) -> Iterator[Problem]:
    """What is wrong with the nearest of several allowed forms; the types allowed when it is none of them."""
    here = list(error.instance_path)
    near = [b for b in branches if b and not any(e.kind.name == "type" and list(e.instance_path) == here for e in b)]
    if near:
        nearest: list[ValidationError] = min(near, key=len)
        yield from _told(nearest, schema, values=values)
        return
    types = dict.fromkeys(
        name for b in branches for e in b if e.kind.name == "type" for name in e.kind.as_dict()["types"]
    )
    allowed = " or ".join(_a(name) for name in types) or "one of the allowed forms"
    found = _kind(error.instance) if values else _type(error.instance)
    yield Problem(json_path(here), f"must be {allowed}, not {found}")


def _expected(schema: Mapping[str, Any], error: ValidationError, name: str) -> str:
    wanted = expected(properties(part_at(schema, error.schema_path[:-1])).get(name), schema)
    return "a value" if wanted == "any" else _a(wanted)


def _known(schema: Mapping[str, Any], error: ValidationError) -> list[str]:
    given = error.instance if isinstance(error.instance, Mapping) else {}
    return [name for name in properties(part_at(schema, error.schema_path[:-1])) if name not in given]


def _hint(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    if near := get_close_matches(name[:64], known, n=1):
        return f"; did you mean {near[0]!r}?"
    return f"; not given yet: {', '.join(known[:MOST_NAMES])}" if known else ""


def _a(name: str) -> str:
    if not _WORD.fullmatch(name) or name == "null":
        return name
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "an array"
    return f"the string {short(value)}" if isinstance(value, str) else short(value)


def _type(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "a boolean", str: "a string", int: "an integer", float: "a number"}
    return names.get(type(value)) or ("an object" if isinstance(value, Mapping) else "an array")


def json_path(path: Sequence[str | int]) -> str:
    """``$.options.tags[2]["a b"]``."""
    steps = (
        f"[{key}]"
        if isinstance(key, int)
        else f".{key}"
        if len(key) <= MOST_CHARACTERS and _WORD.fullmatch(key)
        else f"[{short(key)}]"
        for key in path
    )
    return "$" + "".join(steps)
