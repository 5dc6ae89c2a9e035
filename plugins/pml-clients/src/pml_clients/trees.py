"""Values in nested mappings, by path. Nothing is changed in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

KeyPath: TypeAlias = tuple[str, ...]


def at(tree: Any, path: Sequence[str]) -> Any:
    """The value at ``path``, or None."""
    for name in path:
        if not isinstance(tree, Mapping) or name not in tree:
            return None
        tree = tree[name]
    return tree


def with_value(tree: Mapping[str, Any], path: KeyPath, value: Any) -> dict[str, Any]:
    """``tree`` with ``value`` at ``path``; what is in the way and no mapping gives place."""
    if len(path) == 1:
        return {**tree, path[0]: value}
    inside = tree.get(path[0])
    return {**tree, path[0]: with_value(inside if isinstance(inside, Mapping) else {}, path[1:], value)}


def without(tree: Mapping[str, Any], path: KeyPath) -> dict[str, Any]:
    """``tree`` without what is at ``path``, and without mappings that are empty for it."""
    if len(path) == 1:
        return {name: value for name, value in tree.items() if name != path[0]}
    inside = without(tree[path[0]], path[1:])
    rest = {name: value for name, value in tree.items() if name != path[0]}
    return {**rest, path[0]: inside} if inside else rest


def filled(tree: Mapping[str, Any]) -> dict[str, Any]:
    """``tree`` without mappings that say nothing."""
    inside = {name: filled(value) if isinstance(value, Mapping) else value for name, value in tree.items()}
    return {name: value for name, value in inside.items() if value != {}}


def flat(tree: Mapping[str, Any], prefix: KeyPath = ()) -> dict[KeyPath, Any]:
    """Every value that is no mapping, by its path."""
    found: dict[KeyPath, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            found.update(flat(value, (*prefix, name)))
        else:
            found[*prefix, name] = value
    return found


def with_texts(value: Any, made: Callable[[str], str]) -> Any:
    """``value`` with each text in it, however deep, as ``made`` makes it; keys stay, tuples become lists."""
    if isinstance(value, str):
        return made(value)
    if isinstance(value, Mapping):
        return {key: with_texts(inner, made) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [with_texts(inner, made) for inner in value]
    return value
