"""Change values in the text of a YAML file and leave every other character of it as it is.

Where everything stands is what ruamel.yaml says, which also finds a key that is there twice. Its writer is not used:
it sets spaces anew, and has comments go with the value above them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from . import trees
from .trees import KeyPath, at

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_BEHIND_KEY = re.compile(r"[ \t]*:")
_ALIAS = re.compile(r"\s*\*[^\s,\[\]{}]+")
_Node: TypeAlias = Any
"""A node of ruamel.yaml, which declares no types for them; None for a text that says nothing."""
_Pair: TypeAlias = tuple[_Node, _Node]


class YamlEditError(Exception):
    """The text cannot be changed as asked. The message says why and what to do."""


def with_values(text: str, values: Mapping[KeyPath, Any]) -> str:
    """``text`` with each of ``values`` at its path; what stands there already is left alone.

    Raises:
        YamlEditError: Not YAML, or written in a way that this cannot change.
    """
    for path, value in values.items():
        tree = _loads(text)
        there = at(tree, path)
        if there == value and type(there) is type(value):
            continue
        if there and isinstance(there, dict) and not isinstance(value, Mapping):
            raise _unsafe(path)
        text = _checked(_with_value(text, path, value), trees.with_value(tree, path, value), path)
    return text


def without(text: str, path: KeyPath) -> str:
    """``text`` without what stands at ``path``, and without mappings that are empty for it. Comments behind it stay.

    Raises:
        YamlEditError: Not YAML, or written in a way that this cannot change.
    """
    tree = _loads(text)
    if at(tree, path) is None:
        return text
    expected = trees.without(tree, path)
    while at(expected, path[:-1]) is None and len(path) > 1:
        path = path[:-1]
    node = _root(text)
    for name in path[:-1]:
        node = _found(node, name, path)[1]
    return _checked(_taken_out(text, node, _found(node, path[-1], path), path), expected, path)


def yaml_problem(exc: Exception, text: str) -> str:
    """What a library of YAML has against ``text``, on one line and with the place, as that of TOML says it."""
    mark = getattr(exc, "problem_mark", None)
    place = mark.index if mark else getattr(exc, "position", None)
    said = " ".join((getattr(exc, "problem", None) or str(exc).split("\n", maxsplit=1)[0]).split())
    if place is None:
        return said
    line, column = text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)
    return f"{said} (at line {line}, column {column})"


def _unsafe(path: KeyPath) -> YamlEditError:
    return YamlEditError(f"{'.'.join(path)} is written in a way that cannot be changed safely")


def _checked(text: str, expected: Mapping[str, Any], path: KeyPath) -> str:
    try:
        if _loads(text) == expected:
            return text
    except YamlEditError:
        pass
    raise _unsafe(path)


def _loads(text: str) -> dict[str, Any]:
    """What the file says to the gateway, which reads it with this library."""
    import yaml

    try:
        tree = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as exc:
        raise YamlEditError(f"not valid YAML: {yaml_problem(exc, text)}; correct it first") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise YamlEditError("is not a mapping; correct it first")
    return tree


def _root(text: str) -> _Node:
    """The text as nodes that know where they stand; None for one that says nothing.

    Raises:
        YamlEditError: A key is there twice, or it is no YAML of today.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import DuplicateKeyError
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.nodes import MappingNode

    try:
        YAML(typ="safe", pure=True).load(text)
        node = YAML(typ="safe", pure=True).compose(text)
    except DuplicateKeyError as exc:  # what the library says of it holds the values, which may be secrets
        exc.problem = "a key is there twice"
        raise YamlEditError(f"not valid YAML: {yaml_problem(exc, text)}; correct it first") from None
    except (YAMLError, ValueError) as exc:
        raise YamlEditError(f"not valid YAML: {yaml_problem(exc, text)}; correct it first") from None
    if node is None or (not isinstance(node, MappingNode) and not node.value):
        return None
    return node


def _find(node: _Node, name: str) -> _Pair | None:
    return next(((key, value) for key, value in node.value if key.value == name), None)


def _found(node: _Node, name: str, path: KeyPath) -> _Pair:
    """A key and its value.

    Raises:
        YamlEditError: It is not there: it comes from elsewhere, by a merge key.
    """
    from ruamel.yaml.nodes import MappingNode

    if not isinstance(node, MappingNode) or (pair := _find(node, name)) is None:
        raise _unsafe(path)
    return pair


def _with_value(text: str, path: KeyPath, value: Any) -> str:
    from ruamel.yaml.nodes import MappingNode

    node = _root(text)
    if node is None:
        return _line_put_in(text, len(text), _lines(path, value, 0))
    for depth, name in enumerate(path):
        pair = _find(node, name)
        if pair is None:
            return _put_in(text, node, path[depth:], value)
        start, node = _colon(text, pair, path), pair[1]
        if depth == len(path) - 1:
            return _replaced(text, start, pair, value)
        if _is_empty(pair):
            return _line_put_in(text, start, _lines(path[depth + 1 :], value, pair[0].start_mark.column + 2))
        if not isinstance(node, MappingNode) or _is_alias(pair):
            break
    raise _unsafe(path)


def _replaced(text: str, start: int, pair: _Pair, value: Any) -> str:
    """``text`` with another value behind the colon at ``start``. The comment on the line of the key stays."""
    if _is_empty(pair):
        return f"{text[:start]} {_text(value)}{text[start:]}"
    end = _end(text, pair)
    first = start if _is_alias(pair) else pair[1].start_mark.index
    between = text[start:first]
    if "\n" not in between:
        return f"{text[:first]}{' ' if first == start else ''}{_text(value)}{text[end:]}"
    comment = between.splitlines()[0].rstrip()
    return f"{text[:start]} {_text(value)}{comment}{text[end:]}"


def _put_in(text: str, node: _Node, path: KeyPath, value: Any) -> str:
    """``text`` with another key behind the last one of a mapping."""
    pairs = node.value
    end = _end(text, pairs[-1]) if pairs else node.start_mark.index
    if not node.flow_style:
        return _line_put_in(text, end, _lines(path, value, pairs[0][0].start_mark.column))
    member = f"{_key(path[0])}: {_text(trees.with_value({}, path, value)[path[0]])}"
    if not pairs:
        end = text.index("{", end) + 1
    return f"{text[:end]}{', ' if pairs else ''}{member}{text[end:]}"


def _line_put_in(text: str, position: int, lines: list[str]) -> str:
    """``text`` with lines behind the one in which ``position`` is."""
    newline = "\r\n" if "\r\n" in text else "\n"
    end = text.find("\n", position)
    before, behind = (text, "") if end < 0 else (text[: end + 1], text[end + 1 :])
    gap = newline if before and not before.endswith("\n") else ""
    return before + gap + "".join(f"{line}{newline}" for line in lines) + behind


def _taken_out(text: str, node: _Node, pair: _Pair, path: KeyPath) -> str:
    start, end = pair[0].start_mark.index, _end(text, pair)
    if node is not None and node.flow_style:
        place = [key for key, _ in node.value].index(pair[0])
        if place:
            start = _end(text, node.value[place - 1])
        elif len(node.value) > 1:
            end = node.value[1][0].start_mark.index
        return text[:start] + text[end:]
    line = text.rfind("\n", 0, start) + 1
    if text[line:start].strip():
        raise _unsafe(path)
    behind = text.find("\n", end)
    return text[:line] + (text[behind + 1 :] if behind >= 0 else "")


def _colon(text: str, pair: _Pair, path: KeyPath) -> int:
    """Where the colon of a key ends."""
    found = _BEHIND_KEY.match(text, pair[0].end_mark.index)
    if found is None:
        raise _unsafe(path)
    return found.end()


def _end(text: str, pair: _Pair) -> int:
    """Where the last thing ends that a key says: comments and blank lines behind it are not its own."""
    from ruamel.yaml.nodes import CollectionNode

    key, value = pair
    colon = _BEHIND_KEY.match(text, key.end_mark.index)
    after = colon.end() if colon else key.end_mark.index
    if _is_alias(pair):
        alias = _ALIAS.match(text, after)
        return alias.end() if alias else after
    if _is_empty(pair):
        return after
    last = value
    while isinstance(last, CollectionNode) and last.value and not last.flow_style:
        last = last.value[-1]
        if isinstance(last, tuple):
            return _end(text, last)
        first = last.start_mark.index
        if first < value.start_mark.index or first == last.end_mark.index:
            raise _unsafe((key.value,))  # it stands elsewhere, or nowhere: where the list ends cannot be told
    return len(text[: last.end_mark.index].rstrip())


def _is_alias(pair: _Pair) -> bool:
    """Whether the value stands elsewhere, in front of the key."""
    return bool(pair[1].start_mark.index < pair[0].start_mark.index)


def _is_empty(pair: _Pair) -> bool:
    """Whether nothing is written behind the colon."""
    return bool(pair[1].start_mark.index == pair[1].end_mark.index)


def _lines(path: KeyPath, value: Any, indent: int) -> list[str]:
    lines = [f"{' ' * (indent + 2 * depth)}{_key(name)}:" for depth, name in enumerate(path)]
    return [*lines[:-1], f"{lines[-1]} {_text(value)}"]


def _key(name: str) -> str:
    import yaml

    return name if _BARE.fullmatch(name) and yaml.safe_load(name) == name else _text(name)


def _text(value: Any) -> str:
    """A value on one line, its texts in quotes."""
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    Dumper.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))
    whole = float("inf")
    written: str = yaml.dump(
        value, Dumper=Dumper, default_flow_style=True, sort_keys=False, allow_unicode=True, width=whole
    )
    return written.removesuffix("...\n").rstrip("\n")
