"""What a trusted project's file may say beside the user's own: it adds and narrows, it never loosens."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from pml_clients.configuration.files import Source
from pml_clients.trees import at

S = TypeVar("S")
NAMED = ("servers", "endpoints")
"""Sections whose tables belong whole to who names them."""


def added(tree: Mapping[str, Any], own: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The servers and endpoints of a project that no file of the user's has."""
    found: dict[str, Any] = {}
    for section in NAMED:
        if isinstance(tables := tree.get(section), Mapping):
            found[section] = {n: t for n, t in tables.items() if not _is_in(own, section, n)}
        elif section in tree:
            found[section] = tables  # of the wrong shape, which validation says better
    return found


def dropped(label: str, tree: Mapping[str, Any], own: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """One sentence for each server and endpoint that is the user's already."""
    for section in NAMED:
        tables = tree.get(section)
        for name in tables if isinstance(tables, Mapping) else ():
            if _is_in(own, section, name):
                yield f"{label}: {section}.{name} does not count, because the user's own configuration has it"


def _is_in(own: Sequence[Mapping[str, Any]], section: str, name: str) -> bool:
    return any(isinstance(tables := tree.get(section), Mapping) and name in tables for tree in own)


def shares(
    sources: Sequence[Source], tables: Mapping[str, Mapping[str, Any]], names: Sequence[str], known: Collection[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the user says of a plugin, and what projects' files say.

    Args:
        sources: First wins.
        tables: As they came together.
        names: Of the plugin's tables, its own last; of the others only what is ``known`` counts.
    """
    own: dict[str, Any] = {}
    project: dict[str, Any] = {}
    for name in names:
        path = ("plugins", name)
        theirs: dict[str, Any] = {}
        for source in reversed([source for source in sources if source.is_projects]):
            theirs |= at(source.tree, path) or {}
        mine = {key for source in sources if not source.is_projects for key in at(source.tree, path) or ()}
        counting = {key for key in {**tables.get(name, {}), **theirs} if name == names[-1] or key in known}
        table = tables.get(name, {}).items()
        own |= {key: value for key, value in table if key in counting and (key in mine or key not in theirs)}
        project |= {key: value for key, value in theirs.items() if key in counting}
    return own, project


def together(
    own: S, said: Collection[str], project: S, added: Collection[str], *, guard: bool = False
) -> tuple[S, dict[str, str]]:
    """The user's settings with what a project may add to them.

    Args:
        own: The user's, with defaults.
        said: Fields that the user has set.
        project: The project's, with defaults.
        added: Fields that the project sets.
        guard: They belong to a guard: what is not declared is the user's alone.

    Returns:
        The settings, and for each field of the project's that does not count whole, why.
    """
    values: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    for field in fields(own):  # type: ignore[arg-type]
        if field.name not in added:
            continue
        mine, theirs = getattr(own, field.name), getattr(project, field.name)
        rule = field.metadata.get("project") or ("never" if guard else "set")
        value = _value(rule, mine, theirs, said=field.name in said)
        values[field.name] = value
        if value != theirs and not (rule == "add" and set(theirs) <= set(value)):
            reasons[field.name] = _reason(rule)
    return replace(own, **values), reasons  # type: ignore[type-var]


def _value(rule: Any, mine: Any, theirs: Any, *, said: bool) -> Any:
    if isinstance(rule, tuple):
        return theirs if theirs in rule else mine
    if rule == "add":
        return type(mine)((*mine, *(one for one in theirs if one not in mine)))
    if rule == "lower":
        return min(mine, theirs)
    if rule == "never":
        return mine
    if said and isinstance(mine, dict) and isinstance(theirs, dict):
        return {**theirs, **mine}
    return mine if said else theirs


def _reason(rule: Any) -> str:
    if isinstance(rule, tuple):
        return f"a project's file may only set it to {' or '.join(map(repr, rule))}"
    if rule == "never":
        return "a project's file may not set it"
    return "the user's own configuration says otherwise"
