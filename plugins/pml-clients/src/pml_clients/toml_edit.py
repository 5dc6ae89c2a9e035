"""Change values in the text of a TOML file, by tomlkit, and leave the rest of it, comments included, as it is."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from . import trees
from .trees import KeyPath, at

if TYPE_CHECKING:
    from tomlkit import TOMLDocument
    from tomlkit.container import Container
    from tomlkit.items import Item, Key

SERVERS = "servers"

_Body: TypeAlias = "list[tuple[Key | None, Item]]"
_CUT = "\0"
"""Name of a table that stands where one was taken out; no TOML has it."""


class TomlEditError(Exception):
    """The text cannot be changed as asked. The message says why and what to do."""


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
    """``text`` with a table ``servers.<name>`` for each of ``tables``.

    One that is there already is replaced where it stands, comments inside it included; the others are put at the end.

    Raises:
        TomlEditError: Not TOML, ``servers`` is not a table, or written in a way that this cannot change.
    """
    servers_of(text)
    for name, table in tables.items():
        path, tree = (SERVERS, name), _loads(text)
        expected = trees.with_value(tree, path, table)
        if at(tree, path) is None:
            text = _checked(_with_section(text, path, table), expected, path)
        elif tree != expected:
            text = _checked(_replaced(text, path, table), expected, path)
    return text


def with_values(text: str, values: Mapping[KeyPath, Any]) -> str:
    """``text`` with each of ``values`` at its path; what stands there already is left alone.

    Raises:
        TomlEditError: Not TOML, or written in a way that this cannot change.
    """
    for path, value in values.items():
        tree = _loads(text)
        there = at(tree, path)
        if there == value and type(there) is type(value):
            continue
        expected = trees.with_value(tree, path, value)
        if isinstance(there, dict) and isinstance(value, Mapping):
            text = _checked(_replaced(text, path, value), expected, path)
        else:
            text = _checked(_with_value(text, path, value), expected, path)
    return text


def without_table(text: str, path: KeyPath) -> str:
    """``text`` without the table at ``path`` and the tables in it. Comments above it, or behind it, stay.

    Raises:
        TomlEditError: Not TOML, or written in a way that this cannot change.
    """
    tree = _loads(text)
    return text if at(tree, path) is None else _checked(_replaced(text, path, None), trees.without(tree, path), path)


def _loads(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise TomlEditError(f"not valid TOML: {exc}; correct it first") from None


def _unsafe(path: KeyPath) -> TomlEditError:
    return TomlEditError(f"{'.'.join(path)} is written in a way that cannot be changed safely")


def _checked(text: str, expected: Mapping[str, Any], path: KeyPath) -> str:
    """``text``, if it says what is expected; a table that has become empty may still be named."""
    try:
        if trees.filled(tomllib.loads(text)) == trees.filled(expected):
            return text
    except tomllib.TOMLDecodeError:
        pass
    raise _unsafe(path)


def _with_value(text: str, path: KeyPath, value: Any) -> str:
    """``text`` with a value that is no table in it; nothing else is gone from it.

    Raises:
        TomlEditError: It cannot be changed so.
    """
    document, windows = _document(text, path)
    before = _set(document, path, value)
    result = _with_section(text, path[:-1], {path[-1]: value}) if before is None else _text(document, windows=windows)
    same = _alike(text, result)
    rest = _alike(text[same:][::-1], result[same:][::-1])
    if text[same : len(text) - rest].strip() not in (before or ""):
        raise _unsafe(path)
    return result


def _alike(one: str, other: str) -> int:
    """How many characters are the same at the beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (first, second) in pairs if first != second), min(len(one), len(other)))


def _set(document: TOMLDocument, path: KeyPath, value: Any) -> str | None:
    """Put a value where it, or the table that it belongs into, stands.

    Returns:
        What stood there before; ``""`` for nothing; None if the value needs a table of its own.
    """
    from tomlkit.items import InlineTable, Table

    if there := list(_places(document, path)):
        body, index = there[0]
        key, old = body[index]
        if len(there) > 1 or _is_section(body[index]):
            raise _unsafe(path)
        body[index] = (key, _item(value, like=old))
        return old.as_string()
    for depth in range(len(path) - 1, 0, -1):
        for body, index in reversed(list(_places(document, path[:depth]))):
            key, table = body[index]
            if not isinstance(table, (InlineTable, Table)):
                raise _unsafe(path)
            has_header = isinstance(table, Table) and not table.is_super_table()
            if not _is_section(body[index]) or (depth == len(path) - 1 and has_header):
                _add(table, path[depth], trees.with_value({}, path[depth:], value)[path[depth]])
                return ""
    if len(path) > 1:
        return None
    _insert(document, path[0], value)
    return ""


def _add(table: Any, name: str, value: Any) -> None:
    from tomlkit.items import InlineTable

    if isinstance(table, InlineTable):
        table.append(name, _item(value))
    else:
        _insert(table.value, name, value)


def _insert(container: Container, name: str, value: Any) -> None:
    """Put a key behind the last one: comments and blank lines behind that are the next table's."""
    import tomlkit

    body = container.body
    place = 0
    for index, (key, item) in enumerate(body):
        if _is_section((key, item)):
            break
        if key is not None:
            place = index + 1
    item = _item(value)
    if place and not body[place - 1][1].trivia.trail:
        body[place - 1][1].trivia.trail = "\n"
    body.insert(place, (tomlkit.key(name), item))


def _with_section(text: str, path: KeyPath, table: Mapping[str, Any]) -> str:
    """``text`` with a table at its end."""
    import tomlkit

    block = tomlkit.document()
    for name, value in table.items():
        block.append(name, _item(value))
    newline = "\r\n" if "\r\n" in text else "\n"
    header = f"[{'.'.join(tomlkit.key(name).as_string() for name in path)}]\n"
    gap = "" if not text.strip() or text.endswith(newline * 2) else newline if text.endswith("\n") else newline * 2
    return text + gap + (header + block.as_string()).replace("\n", newline)


def _replaced(text: str, path: KeyPath, table: Mapping[str, Any] | None) -> str:
    """``text`` with another table in the place of what stands at ``path``, or with none."""
    import tomlkit
    from tomlkit.items import InlineTable, Table

    document, windows = _document(text, path)
    for body, index in list(_places(document, path[:-1])):
        inline = body[index][1]
        if table is None and isinstance(inline, InlineTable):
            inline.remove(path[-1])
    for number, (body, index) in reversed(list(enumerate(_places(document, path)))):
        key, old = body[index]
        new: Any = tomlkit.table() if _is_section((key, old)) or table is None else _item({}, like=old)
        if table is None or number > 0:
            new.display_name = _CUT
        else:
            for name, value in table.items():
                new.append(name, _item(value))
        if isinstance(new, Table):
            new.value.body.extend(_behind((key, old)))
        body[index] = (key, new)
    return _text(document, windows=windows)


def _behind(entry: tuple[Key | None, Item]) -> _Body:
    """The comments and blank lines that stand behind what a table says."""
    from tomlkit.items import AoT, Table

    if not _is_section(entry):
        return []
    body: _Body = [(None, entry[1].body[-1])] if isinstance(entry[1], AoT) else entry[1].value.body
    place = len(body)
    while place and body[place - 1][0] is None and not isinstance(body[place - 1][1], Table):
        place -= 1
    rest = body[place:]
    return rest if rest or not body else _behind(body[-1])


def _places(container: Container, path: KeyPath) -> Iterator[tuple[_Body, int]]:
    """Where ``path`` is written, in the order of the text: the list that has it, and the place in it."""
    from tomlkit.items import InlineTable, Table

    for index, (key, item) in enumerate(container.body):
        if key is None or key.key not in path[:1]:
            continue
        if len(path) == 1:
            yield container.body, index
        elif isinstance(item, (InlineTable, Table)):
            yield from _places(item.value, path[1:])


def _is_section(entry: tuple[Key | None, Item]) -> bool:
    """Whether something is written below a header, its own or those of what is in it."""
    from tomlkit.items import AoT, Table

    key, item = entry
    return isinstance(item, AoT) or (isinstance(item, Table) and not (key is not None and key.is_dotted()))


def _item(value: Any, *, like: Item | None = None) -> Item:
    """A value as TOML writes it on one line; with the comment of another one."""
    import tomlkit

    item: Any
    if isinstance(value, Mapping):
        item = tomlkit.inline_table()
        for name, member in value.items():
            item.append(name, _item(member))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        item = tomlkit.array()
        for member in value:
            item.append(_item(member))
    else:
        item = tomlkit.item(value)
    if like is not None:
        for part in ("indent", "comment_ws", "comment", "trail"):
            setattr(item.trivia, part, getattr(like.trivia, part))
    return item  # type: ignore[no-any-return]


def _document(text: str, path: KeyPath) -> tuple[TOMLDocument, bool]:
    """The text as tomlkit has it, and whether all of its lines end as those of Windows do."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    windows = "\r\n" in text and "\n" not in text.replace("\r\n", "")
    try:
        return tomlkit.parse(text.replace("\r\n", "\n") if windows else text), windows
    except TOMLKitError:
        raise _unsafe(path) from None


def _text(document: TOMLDocument, *, windows: bool) -> str:
    """A changed document; where something was taken out, two blank lines become one."""
    first, *others = document.as_string().split(f"[{_CUT}]\n")
    for other in others:
        if not other:
            first = first.rstrip("\n") + "\n" if first.strip("\n") else ""
        twice = other.startswith("\n") and (not first or first.endswith("\n\n"))
        first += other[twice:]
    return first.replace("\n", "\r\n") if windows else first
