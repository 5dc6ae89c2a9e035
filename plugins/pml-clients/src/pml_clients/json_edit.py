"""Change one member of a JSON text, as editors write it, and leave every other character as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import jsonc

_SPACE = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_PLAIN = re.compile(r"[^\s,\]}/]+")
_INDENT = re.compile(r"\n([ \t]+)\S")


class JsonEditError(Exception):
    """The text cannot be changed as asked. The message says why."""


@dataclass(slots=True)
class _Value:
    """Where a value stands. Of objects, also where their members do."""

    start: int
    end: int = 0
    members: list[_Member] | None = None


@dataclass(slots=True)
class _Member:
    name: str
    start: int
    value: _Value = field(default_factory=lambda: _Value(0))


def with_member(text: str, path: Sequence[str], value: Any) -> str:
    """``text`` with ``value`` at ``path``; objects on the way are made, an earlier value is replaced.

    Raises:
        JsonEditError: It is not JSON, or something on the way is not an object.
    """
    if not text.strip():
        text = "{}\n"
    tree = _parsed(text)
    expected = _set(tree, path, value)
    root = _scan(text)
    node, depth = root, 0
    while depth < len(path) and (found := _member(node, path[depth])) is not None:
        node, depth = found.value, depth + 1
    for name in reversed(path[depth + 1 :]):
        value = {name: value}
    if depth == len(path):
        result = text[: node.start] + _json(value, text, node.start) + text[node.end :]
    else:
        result = _inserted(text, node, path[depth], value)
    return _checked(result, expected)


def without_member(text: str, path: Sequence[str]) -> str:
    """``text`` without what is at ``path``; as it is when there is nothing.

    Raises:
        JsonEditError: It is not JSON, or something on the way is not an object.
    """
    tree = _parsed(text)
    parent: Any = tree
    for name in path[:-1]:
        parent = parent.get(name) if isinstance(parent, dict) else None
    if not isinstance(parent, dict) or path[-1] not in parent:
        return text
    node = _scan(text)
    for name in path[:-1]:
        found = _member(node, name)
        if found is None:
            raise JsonEditError("it has a key twice")
        node = found.value
    result = _removed(text, node, path[-1])
    del parent[path[-1]]
    return _checked(result, tree)


def span(text: str, path: Sequence[str]) -> tuple[int, int] | None:
    """Where the value at ``path`` begins and ends; None when there is none.

    Raises:
        JsonEditError: It is not JSON.
    """
    _parsed(text)
    node = _scan(text)
    for name in path:
        found = _member(node, name)
        if found is None:
            return None
        node = found.value
    return node.start, node.end


def _parsed(text: str) -> Any:
    try:
        return jsonc.loads(text)
    except jsonc.JsonSyntaxError as exc:
        place = f" (line {exc.line}, column {exc.column})" if exc.line else ""
        raise JsonEditError(f"it is not valid JSON{place}: {exc.message}") from None


def _set(tree: Any, path: Sequence[str], value: Any) -> Any:
    if not isinstance(tree, dict):
        raise JsonEditError(f"it holds {type(tree).__name__} where an object belongs that has {path[0]!r}")
    inner = value if len(path) == 1 else _set(tree.get(path[0], {}), path[1:], value)
    return {**tree, path[0]: inner}


def _checked(text: str, expected: Any) -> str:
    try:
        if jsonc.loads(text) == expected:
            return text
    except jsonc.JsonSyntaxError:
        pass
    raise JsonEditError("it is written in a way that cannot be changed safely")


def _member(node: _Value, name: str) -> _Member | None:
    """The last of this name counts, as in JavaScript."""
    return next((m for m in reversed(node.members or ()) if m.name == name), None)


def _scan(text: str) -> _Value:
    """The places in a text that has been parsed already."""
    try:
        return _value(text, _after_space(text, 0))
    except (AttributeError, IndexError, RecursionError, ValueError):
        raise JsonEditError("it is written in a way that cannot be changed safely") from None


def _after_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _value(text: str, start: int) -> _Value:
    if text[start] == "{":
        return _object(text, start)
    if text[start] == "[":
        position = _after_space(text, start + 1)
        while text[position] != "]":
            position = _after_comma(text, _value(text, position).end)
        return _Value(start, position + 1)
    found = (_STRING if text[start] == '"' else _PLAIN).match(text, start)
    if found is None:
        raise ValueError(start)
    return _Value(start, found.end())


def _object(text: str, start: int) -> _Value:
    node = _Value(start, members=[])
    position = _after_space(text, start + 1)
    while text[position] != "}":
        key = _STRING.match(text, position)
        if key is None or node.members is None:
            raise ValueError(position)
        colon = _after_space(text, key.end())
        if text[colon] != ":":
            raise ValueError(colon)
        value = _value(text, _after_space(text, colon + 1))
        node.members.append(_Member(json.loads(key[0]), position, value))
        position = _after_comma(text, value.end)
    node.end = position + 1
    return node


def _after_comma(text: str, position: int) -> int:
    position = _after_space(text, position)
    return _after_space(text, position + 1) if text[position] == "," else position


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _unit(text: str) -> str:
    """One step of indentation: that of the first indented line."""
    found = _INDENT.search(text)
    return found[1] if found else "  "


def _line_indent(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip())]


def _json(value: Any, text: str, position: int) -> str:
    """``value`` as it would stand on the line of ``position``."""
    indent, newline = _line_indent(text, position), _newline(text)
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).split("\n")
    return f"{newline}{indent}".join(lines)


def _inserted(text: str, node: _Value, name: str, value: Any) -> str:
    """``text`` with a first member more: behind the brace, no comma and no comment is in the way."""
    opened, newline = node.start + 1, _newline(text)
    outer = _line_indent(text, node.start)
    if not node.members and text[: node.start].strip() and "\n" not in text.strip():  # all of it is on one line
        return f"{text[:opened]}{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}{text[opened:]}"
    if not node.members:
        inner = outer + _unit(text)
        member = _indented(name, value, inner, text)
        rest = text[opened:]
        closing = "" if re.match(r"[ \t]*(?:\r?\n|//|/\*)", rest) else f"{newline}{outer}"
        return f"{text[:opened]}{newline}{inner}{member}{closing}{rest}"
    first = node.members[0].start
    if "\n" not in text[opened:first]:
        return f"{text[:first]}{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}, {text[first:]}"
    inner = _line_indent(text, first)
    return f"{text[:opened]}{newline}{inner}{_indented(name, value, inner, text)},{text[opened:]}"


def _indented(name: str, value: Any, indent: str, text: str) -> str:
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).split("\n")
    return f"{json.dumps(name)}: " + f"{_newline(text)}{indent}".join(lines)


def _removed(text: str, node: _Value, name: str) -> str:
    members = node.members or []
    number = max(n for n, member in enumerate(members) if member.name == name)
    member = members[number]
    before = members[number - 1].value.end if number else node.start + 1
    end = _after_space(text, member.value.end)
    if text[end] == ",":
        between = text[before : member.start]
        start = before + len(between.rstrip()) if "\n" in between else member.start
        following = end + 1
        if start == member.start:  # all on one line: the space behind the comma goes, too
            following += len(text[following:]) - len(text[following:].lstrip(" "))
        return text[:start] + text[following:]
    if number:
        comma = text.index(",", _after_space(text, before))
        return text[:comma] + text[comma + 1 : member.start].rstrip() + text[member.value.end :]
    return text[: node.start + 1] + text[node.start + 1 : member.start].rstrip() + text[member.value.end :]
