"""Writes ``[servers.<name>]`` tables into the text of a TOML file and leaves the rest of the text as it is."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

SERVERS = "servers"

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPED = re.compile(r'[\x00-\x1f"\\\x7f]')
_SHORT_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_CLOSING = ('"""', "'''", "]", "}")
"""What a value of several lines ends with."""
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class TomlEditError(Exception):
    """The text cannot be changed as asked. The message says why and what to do."""


def value_text(value: object) -> str:
    """A TOML value: text, boolean, number, array of those, or inline table of those.

    Raises:
        TypeError: ``value`` is something else.
    """
    if isinstance(value, str):
        return f'"{_ESCAPED.sub(_escape, value)}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Mapping):
        members = ", ".join(f"{key_text(key)} = {value_text(member)}" for key, member in value.items())
        return f"{{ {members} }}" if members else "{}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(value_text, value))}]"
    raise TypeError(f"not a TOML value: {type(value).__name__}")


def key_text(key: str) -> str:
    """A TOML key, in quotes where it needs them."""
    return key if _BARE_KEY.fullmatch(key) else value_text(key)


def table_text(name: str, table: Mapping[str, Any]) -> str:
    """A ``[servers.<name>]`` table, one key a line."""
    lines = [
        f"[{SERVERS}.{key_text(name)}]",
        *(f"{key_text(key)} = {value_text(value)}" for key, value in table.items()),
    ]
    return "".join(f"{line}\n" for line in lines)


def servers_of(text: str) -> dict[str, Any]:
    """The ``[servers]`` table of a TOML text; empty when there is none.

    Raises:
        TomlEditError: Not TOML, or ``servers`` is not a table.
    """
    servers = _loads(text).get(SERVERS, {})
    if not isinstance(servers, dict):
        raise TomlEditError(f"{SERVERS} is not a table; rename that key or make it a table")
    return servers


def with_servers(text: str, tables: Mapping[str, Mapping[str, Any]]) -> str:
    """``text`` with a ``[servers.<name>]`` table for each of ``tables``.

    A table that is there already is replaced where it stands, comments inside it included; the others are put at the
    end. The result is parsed again, so that what comes out always means what was asked for.

    Raises:
        TomlEditError: A table to be replaced, or ``servers`` itself, is written in a way that this cannot change.
    """
    servers = servers_of(text)
    if not tables:
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    result = text
    for name, table in tables.items():
        block = table_text(name, table).replace("\n", newline)
        result = _with_block(result, name, block) if name in servers else _at_end(result, block, newline)
    try:
        right = _loads(result) == {**_loads(text), SERVERS: {**servers, **tables}}
    except TomlEditError:
        right = False
    if not right:
        names = ", ".join(f"[{SERVERS}.{key_text(name)}]" for name in tables)
        raise TomlEditError(
            f"its servers are not written as plain [{SERVERS}.<name>] tables; change {names} there by hand"
        )
    return result


def _loads(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise TomlEditError(f"not valid TOML: {exc}; correct it first") from None


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    return _SHORT_ESCAPES.get(char, f"\\u{ord(char):04X}")


def _at_end(text: str, block: str, newline: str) -> str:
    if text and not text.endswith("\n"):
        text += newline
    if text.strip() and not text.endswith(newline * 2):
        text += newline
    return text + block


def _with_block(text: str, name: str, block: str) -> str:
    """``text`` with the table of ``name``, and the tables in it, replaced by ``block``."""
    lines = _LINE.findall(text)
    starts = [(number, path[:2] == (SERVERS, name)) for number, path in headers(lines)]
    ends = [*(number for number, _ in starts), len(lines)][1:]
    result, position = "", 0
    for (start, ours), following in zip(starts, ends, strict=True):
        if not ours:
            continue
        end = following
        while end > start + 1 and says_nothing(lines[end - 1]):
            end -= 1
        result += "".join(lines[position:start]) + block
        block, position = "", end
    return result + "".join(lines[position:])


def says_nothing(line: str) -> bool:
    """Whether a line is empty, or a comment."""
    return not line.strip() or line.lstrip().startswith("#")


def headers(lines: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Number and path of each line that begins a table; what looks like one within a text or an array is none."""
    number = 0
    while number < len(lines):
        if path := _header(lines[number]):
            yield number, path
            number += 1
        else:
            number = behind(lines, number, len(lines))


def behind(lines: Sequence[str], first: int, end: int) -> int:
    """The number behind the last line of what begins at ``first``; the next one where that cannot be told."""
    if says_nothing(lines[first]):
        return first + 1
    for last in range(first + 1, end + 1):
        if last > first + 1 and not any(closing in lines[last - 1] for closing in _CLOSING):
            continue
        try:
            tomllib.loads("".join(lines[first:last]))
        except tomllib.TOMLDecodeError:
            continue
        return last
    return first + 1


def only_path(tree: Any) -> tuple[str, ...]:
    """The names that lead to the first value."""
    path: list[str] = []
    while isinstance(tree, dict) and tree:
        name, tree = next(iter(tree.items()))
        path.append(name)
    return tuple(path)


def _header(line: str) -> tuple[str, ...]:
    """The path in a table's header; empty for other lines."""
    if not line.lstrip().startswith("["):
        return ()
    try:
        return only_path(tomllib.loads(line))
    except tomllib.TOMLDecodeError:
        return ()
