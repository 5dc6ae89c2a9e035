"""Set values in the text of a TOML file and leave the rest of it, comments included, as it is."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from pml_core.toml_text import TomlEditError, behind, headers, key_text, only_path, says_nothing, value_text

from .trees import KeyPath, at, with_value, without

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_Section: TypeAlias = tuple[KeyPath, int, int]
"""The path of a table, and its lines from behind the header on."""


def with_values(text: str, values: Mapping[KeyPath, Any]) -> str:
    """``text`` with each of ``values`` at its path; what stands there already is left alone.

    Raises:
        TomlEditError: Not TOML, or written in a way that this cannot change.
    """
    for path, value in values.items():
        tree = _loads(text)
        if at(tree, path) != value or type(at(tree, path)) is not type(value):
            text = _checked(_with_value(text, tree, path, value), with_value(tree, path, value))
    return text


def without_table(text: str, path: KeyPath) -> str:
    """``text`` without the table at ``path`` and the tables in it.

    Raises:
        TomlEditError: Not TOML, or written in a way that this cannot change.
    """
    tree = _loads(text)
    if at(tree, path) is None:
        return text
    lines = _LINE.findall(text)
    for name, start, end in reversed(list(_sections(lines))):
        if name[: len(path)] == path:
            del lines[start - 1 : _behind(lines, start, end)]
            if start > 1 and not lines[start - 2].strip() and (start > len(lines) or not lines[start - 1].strip()):
                del lines[start - 2]
    return _checked("".join(lines), without(tree, path))


def _loads(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise TomlEditError(f"not valid TOML: {exc}; correct it first") from None


def _checked(text: str, expected: Mapping[str, Any]) -> str:
    try:
        if tomllib.loads(text) == expected:
            return text
    except tomllib.TOMLDecodeError:
        pass
    raise TomlEditError("is written in a way that cannot be changed safely")


def _with_value(text: str, tree: Mapping[str, Any], path: KeyPath, value: Any) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = _LINE.findall(text)
    if (changed := _replaced(lines, path, value)) is not None:
        return "".join(changed)
    parent, name = path[:-1], path[-1]
    line = f"{key_text(name)} = {value_text(value)}{newline}"
    for section, start, end in _sections(lines):
        if section == parent:
            last = _behind(lines, start, end)
            before = "".join(lines[:last])
            return f"{before}{'' if before.endswith(chr(10)) else newline}{line}{''.join(lines[last:])}"
    if not parent:
        return line + text
    if (inside := at(tree, parent)) is not None:
        merged = {**inside, name: value} if isinstance(inside, Mapping) else value
        if (changed := _replaced(lines, parent, merged)) is not None:
            return "".join(changed)
    gap = "" if not text.strip() or text.endswith(newline * 2) else newline if text.endswith("\n") else newline * 2
    return f"{text}{gap}[{'.'.join(map(key_text, parent))}]{newline}{line}"


def _replaced(lines: list[str], path: KeyPath, value: Any) -> list[str] | None:
    """The lines with another value where ``path`` is assigned, by itself or in an inline table; None if nowhere."""
    for section, start, end in [((), 0, _first_header(lines)), *_sections(lines)]:
        rest = path[len(section) :]
        if section != path[: len(section)] or not rest:
            continue
        for first, last, name, tree in _assignments(lines, start, end):
            if name != rest[: len(name)]:
                continue
            whole = value if name == rest else with_value({name[-1]: at(tree, name)}, rest[len(name) - 1 :], value)
            if name != rest:
                if at(tree, rest) is None and not isinstance(at(tree, name), dict):
                    return None
                whole = whole[name[-1]]
            chunk = "".join(lines[first:last])
            return [*lines[:first], _assignment(chunk, tree, whole), *lines[last:]]
    return None


def _assignments(lines: list[str], start: int, end: int) -> Iterator[tuple[int, int, KeyPath, dict[str, Any]]]:
    """First line, line behind the last, name as written, and the tree that it makes."""
    first = start
    while first < end:
        last = behind(lines, first, end)
        chunk = "".join(lines[first:last])
        if tree := _tree(chunk):
            yield first, last, _written_name(chunk), tree
        first = last


def _tree(chunk: str) -> dict[str, Any]:
    try:
        return tomllib.loads(chunk)
    except tomllib.TOMLDecodeError:
        return {}


def _written_name(chunk: str) -> KeyPath:
    """The path left of the equals sign."""
    for position in (n for n, char in enumerate(chunk) if char == "="):
        try:
            tree: Any = tomllib.loads(f"{chunk[:position]}= 0")
        except tomllib.TOMLDecodeError:
            continue
        return only_path(tree)
    return ()


def _assignment(chunk: str, tree: Mapping[str, Any], value: Any) -> str:
    """The lines of an assignment with another value; the comment behind it stays."""
    name, comment = chunk, ""
    for position in (n for n, char in enumerate(chunk) if char == "="):
        try:
            tomllib.loads(f"{chunk[:position]}= 0")
        except tomllib.TOMLDecodeError:
            continue
        name = chunk[:position].rstrip()
        break
    for position in (n for n, char in enumerate(chunk) if char == "#"):
        try:
            same = tomllib.loads(chunk[:position]) == tree
        except tomllib.TOMLDecodeError:
            continue
        if same:
            comment = chunk[len(chunk[:position].rstrip()) :]
            break
    ending = chunk[len(chunk.rstrip("\r\n")) :]
    return f"{name} = {value_text(value)}{comment or ending}"


def _sections(lines: list[str]) -> Iterator[_Section]:
    found = list(headers(lines))
    ends = [*(number for number, _ in found), len(lines)][1:]
    for (number, path), end in zip(found, ends, strict=True):
        yield path, number + 1, end


def _behind(lines: list[str], start: int, end: int) -> int:
    """The line behind the last one that says something."""
    while end > start and says_nothing(lines[end - 1]):
        end -= 1
    return end


def _first_header(lines: list[str]) -> int:
    return next((number for number, _ in headers(lines)), len(lines))
