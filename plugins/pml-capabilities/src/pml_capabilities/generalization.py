"""One piece of code for many that differ in literals only: where they differ, it takes inputs."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import inputs as input_schemas
from .literal import LiteralScan
from .literals import INPUTS, find

_MARK = "__pml_{}__"
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
_RESERVED = frozenset({"", INPUTS, "tools", "arguments", "eval", "undefined", "self", "None", "True", "False"})


@dataclass(frozen=True, slots=True)
class Generalization:
    """Code whose differing literals have become inputs, and the schema of these inputs."""

    code: str
    lifted: tuple[int, ...]
    """Which of the literals of the code that was first are inputs now, by their order."""
    inputs: Mapping[str, Any]
    """JSON Schema; what was a literal has its first value as ``default`` and may be left out."""


def skeleton(language: str, source: str, *, program: bool = False) -> str:
    """``source`` with its literals replaced by their kinds. A program's stay: it has no inputs."""
    found = LiteralScan() if program else find(language, source)
    return _with(source, found, [_MARK.format(one.kind) for one in found.literals])


def widened(language: str, first: str, before: Generalization, now: str, inputs: Mapping[str, Any]) -> Generalization:
    """What takes the literals of ``now``, too.

    Args:
        language: Of both.
        first: The code that was learned first.
        before: What became of it so far.
        now: Code with the same :func:`skeleton`.
        inputs: What ``now`` was given, as a schema.
    """
    merged = input_schemas.merged(before.inputs, inputs)
    known, new = find(language, first), find(language, now)
    if len(known.literals) != len(new.literals):
        return Generalization(before.code, before.lifted, merged)
    pairs = list(zip(known.literals, new.literals, strict=True))
    lifted = tuple(at for at, (a, b) in enumerate(pairs) if at in before.lifted or a.value != b.value)
    names = _names(known, {name for name, kind in merged["properties"].items() if "default" not in kind})
    properties = dict(merged["properties"])
    for at in lifted:
        first_value, value = known.literals[at].value, new.literals[at].value
        kind = properties.get(names[at]) or input_schemas.kind_of(first_value)
        both = input_schemas.either(kind, input_schemas.kind_of(value))
        properties[names[at]] = {**both, "default": first_value}
    spelt = [
        f'{INPUTS}["{name}"]' if at in lifted else first[one.start : one.end]
        for at, (one, name) in enumerate(zip(known.literals, names, strict=True))
    ]
    return Generalization(_with(first, known, spelt), lifted, {**merged, "properties": properties})


def _names(found: LiteralScan, taken: Collection[str]) -> Sequence[str]:
    """One for each literal, whichever are inputs; none of ``taken``, nor of a variable that the code means by it."""
    names: list[str] = []
    for one in found.literals:
        name = one.name if _IDENTIFIER.fullmatch(one.name) and one.name not in _RESERVED else ""
        if not name or (name in found.variables and not one.declares):
            name = f"{name or one.kind}_value"
        number, free = 1, name
        while free in names or free in taken or (free != one.name and free in found.variables):
            number += 1
            free = f"{name}_{number}"
        names.append(free)
    return names


def _with(source: str, found: LiteralScan, spelt: Sequence[str]) -> str:
    parts, at = [], 0
    for one, text in zip(found.literals, spelt, strict=True):
        parts += [source[at : one.start], text]
        at = one.end
    return "".join([*parts, source[at:]])
