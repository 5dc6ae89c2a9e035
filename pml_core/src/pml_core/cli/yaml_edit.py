"""Set values in the text of a YAML file and leave the rest of it, comments included, as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from . import trees
from .trees import KeyPath, at, with_value

_KEY = re.compile(r"""(?P<indent>[ ]*)(?P<quote>["']?)(?P<name>[^\s"'#:][^"'#:]*?)(?P=quote)[ ]*:(?P<rest>[ \t].*|)$""")
_COMMENT = re.compile(r"[ \t]+#.*$")


class YamlEditError(Exception):
    """The text cannot be changed as asked. The message says why and what to do."""


def with_values(text: str, values: Mapping[KeyPath, Any]) -> str:
    """``text`` with each of ``values`` at its path; what stands there already is left alone.

    Raises:
        YamlEditError: Not YAML, or written in a way that this cannot change.
    """
    for path, value in values.items():
        tree = _loads(text)
        if at(tree, path) == value and type(at(tree, path)) is type(value):
            continue
        text = _checked(_with_value(text, path, value), with_value(tree, path, value))
    return text


def without(text: str, path: KeyPath) -> str:
    """``text`` without what stands at ``path``, and without mappings that are empty for it.

    Raises:
        YamlEditError: Not YAML, or written in a way that this cannot change.
    """
    tree = _loads(text)
    if at(tree, path) is None:
        return text
    expected = trees.without(tree, path)
    while at(expected, path[:-1]) is None and len(path) > 1:
        path = path[:-1]
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.removesuffix(newline).split(newline)
    start, end = 0, len(lines)
    for depth, name in enumerate(path):
        if (found := _find(lines, start, end, name)) is None:
            raise YamlEditError("is written in a way that cannot be changed safely")
        number, match = found
        below = _end_of_block(lines, number, end, len(match["indent"]))
        if depth == len(path) - 1:
            del lines[number:below]
        start, end = number + 1, below
    return _checked(newline.join(lines) + newline if lines else "", expected)


def _checked(text: str, expected: Mapping[str, Any]) -> str:
    try:
        if _loads(text) == expected:
            return text
    except YamlEditError:
        pass
    raise YamlEditError("is written in a way that cannot be changed safely")


def _loads(text: str) -> dict[str, Any]:
    import yaml

    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as exc:
        raise YamlEditError(f"not valid YAML: {exc}; correct it first") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise YamlEditError("is not a mapping; correct it first")
    return tree


def _with_value(text: str, path: KeyPath, value: Any) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.removesuffix(newline).split(newline) if text.strip() else []
    start, end, indent = 0, len(lines), ""
    for depth, name in enumerate(path):
        found = _find(lines, start, end, name)
        if found is None:
            indent = _indent_of_children(lines, start, end, indent, depth)
            lines[_behind(lines, start, end) : _behind(lines, start, end)] = _block(path[depth:], value, indent)
            break
        number, match = found
        below = _end_of_block(lines, number, end, len(match["indent"]))
        if depth == len(path) - 1:
            comment = _COMMENT.search(match["rest"]) if below == number + 1 else None
            lines[number:below] = [_line(match, name, value) + (comment[0] if comment else "")]
            break
        if _COMMENT.sub("", match["rest"]).strip() in ("{}", "null", "~"):
            lines[number] = f"{match['indent']}{name}:"
        start, end, indent = number + 1, below, match["indent"]
    return newline.join(lines) + newline


def _find(lines: list[str], start: int, end: int, name: str) -> tuple[int, re.Match[str]] | None:
    """The line of a key among those that are not indented deeper than the first one."""
    level = None
    for number in range(start, end):
        match = _KEY.match(lines[number])
        if match is None:
            continue
        level = len(match["indent"]) if level is None else level
        if len(match["indent"]) == level and match["name"] == name:
            return number, match
    return None


def _indent_of_children(lines: list[str], start: int, end: int, parent: str, depth: int) -> str:
    matches = (_KEY.match(line) for line in lines[start:end])
    first = next((match["indent"] for match in matches if match), None)
    return first if first is not None else parent + "  " if depth else ""


def _behind(lines: list[str], start: int, end: int) -> int:
    """The line behind the last one that says something."""
    while end > start and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return end


def _end_of_block(lines: list[str], number: int, end: int, indent: int) -> int:
    """The line behind a key's value; a list may stand as far left as its key."""
    last = number + 1
    for line in range(number + 1, end):
        text = lines[line]
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        deeper = len(text) - len(text.lstrip())
        if deeper < indent or (deeper == indent and not text.lstrip().startswith("- ")):
            break
        last = line + 1
    return last


def _line(match: re.Match[str], name: str, value: Any) -> str:
    return f"{match['indent']}{match['quote']}{name}{match['quote']}: {_text(value)}"


def _block(path: KeyPath, value: Any, indent: str) -> list[str]:
    lines = [f"{indent}{'  ' * depth}{name}:" for depth, name in enumerate(path)]
    return [*lines[:-1], f"{lines[-1]} {_text(value)}"]


def _text(value: Any) -> str:
    """JSON is YAML, on one line."""
    return json.dumps(value, ensure_ascii=False)
