"""Fill in what an intent says outright, and what earlier steps give by their schemas. Nothing is made up."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pml_kit.mcp.tool_schemas import input_schema, output_schema
from pml_kit.schema.members import properties, required

from .actions import changes
from .steps import Step

QUOTED = re.compile(r"\"([^\"]+)\"|'([^']+)'|`([^`]+)`|\u201c([^\u201d]+)\u201d")
URL = re.compile(r"https?://[^\s\"'<>)]+")
EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
PATH = re.compile(r"(?<![\w/:.])(?:~|\.{1,2})?/[\w./~-]*[\w/]|\b[\w-]+\.[a-z][a-z0-9]{1,4}\b", re.IGNORECASE)
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])")
MEANS = {"url": URL, "uri": URL, "link": URL, "email": EMAIL, "path": PATH, "file": PATH, "filename": PATH, "dir": PATH}
"""Words in a parameter's name, and what such a value looks like."""
MOST_CHOICES = 100
"""Values of an enumeration that are looked for, of those that stand in the text."""
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@dataclass(frozen=True, slots=True)
class StepArguments:
    """A step's arguments as far as they are known."""

    arguments: dict[str, Any] = field(default_factory=dict)
    depends_on: tuple[str, ...] = ()
    """Ids of steps whose results are referred to."""
    missing: tuple[str, ...] = ()
    """Required parameters that nothing says anything about."""


def filled(step: Step, intent: str, before: Sequence[tuple[str, Step]]) -> StepArguments:
    """What ``step`` is called with.

    Args:
        step: What is to be called.
        intent: All of it; a clause's own words come first, and count alone for a tool that changes something: what
            another clause speaks of is not for it to change.
        before: Earlier steps by their ids in the plan.
    """
    intent = step.clause if changes(step.entry) else intent
    arguments: dict[str, Any] = {}
    depends_on: list[str] = []
    missing: list[str] = []
    taken = input_schema(step.entry)
    needed = required(taken)
    for name, described in properties(taken).items():
        schema = described if isinstance(described, Mapping) else {}
        if (said := _said(name, schema, step.clause, intent, required=name in needed)) is not None:
            arguments[name] = said
        elif (given := _given(name, schema, before)) is not None and name in needed:
            arguments[name] = f"{{{{{given}.{name}}}}}"
            depends_on.append(given)
        elif name in needed:
            missing.append(name)
    return StepArguments(arguments, tuple(dict.fromkeys(depends_on)), tuple(missing))


def _said(name: str, schema: Mapping[str, Any], clause: str, intent: str, *, required: bool) -> Any:
    """The value that the words give for a parameter; None when they give none, or more than one."""
    choices = schema.get("enum")
    if isinstance(choices, list):
        lowered = clause.lower()
        there = [c for c in choices if isinstance(c, str) and c.lower() in lowered][:MOST_CHOICES]
        named = [c for c in there if re.search(rf"\b{re.escape(c)}\b", clause, re.IGNORECASE)]
        return named[0] if len(named) == 1 else None
    if schema.get("type") in ("integer", "number"):
        return _number(clause, whole=schema["type"] == "integer") if required else None
    if schema.get("type", "string") != "string":
        return None
    words = [word.lower() for word in WORD.findall(name)]
    for word in words:
        if word in MEANS:
            return _only(MEANS[word].findall(clause)) or _only(MEANS[word].findall(intent))
    quoted = ["".join(groups) for groups in QUOTED.findall(clause)]
    if required and len(quoted) == 1:
        return quoted[0]
    return None


def _only(found: Sequence[str]) -> str | None:
    distinct = list(dict.fromkeys(found))
    return distinct[0] if len(distinct) == 1 else None


def _number(text: str, *, whole: bool) -> int | float | None:
    found = _only(NUMBER.findall(text))
    if found is None or (whole and "." in found):
        return None
    return int(found) if "." not in found else float(found)


def _given(name: str, schema: Mapping[str, Any], before: Sequence[tuple[str, Step]]) -> str | None:
    """The last step whose output has a member of this name and type."""
    for id, step in reversed(before):
        described = properties(output_schema(step.entry)).get(name)
        if name and described is not None:
            type_ = described.get("type") if isinstance(described, Mapping) else None
            if type_ == schema.get("type"):
                return id
    return None
