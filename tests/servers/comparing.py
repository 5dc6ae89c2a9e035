"""Two recordings compared: only what two direct runs have in common counts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from entries import Entry
from playing import LISTS, Recording
from ways import prefix

OWN = "pml://"
"""Resources of the gateway itself."""
NOTE = "Note by the gateway: "
"""Begins what the gateway adds to a server's error."""
_WORD = re.compile(r"[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}|\d+(?:\.\d+)*(?!\w)|\w+|\W")
"""Also a UUID is one, and a number with a fraction."""
Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Difference:
    """A place where a way has something else than the direct connection."""

    server: str
    way: str
    part: str
    """``initialize``, a list's method (``later:`` before it for the second reading), or a step's title."""
    path: Path
    direct: Any
    through: Any
    """``None`` on either side: nothing is there."""

    @property
    def place(self) -> str:
        """The path as text."""
        return "/".join(str(step) for step in self.path)


def unstable(recordings: Sequence[Any], path: Path = ()) -> Iterator[tuple[Path, Sequence[Any]]]:
    """The places where direct runs differ, with what each had there; nothing deeper than the first difference."""
    first = recordings[0]
    if all(isinstance(each, dict) for each in recordings):
        for name in dict.fromkeys(name for each in recordings for name in each):
            yield from unstable([each.get(name) for each in recordings], (*path, name))
    elif all(isinstance(each, list) and len(each) == len(first) for each in recordings):
        for place in range(len(first)):
            yield from unstable([each[place] for each in recordings], (*path, place))
    elif any(type(each) is not type(first) or each != first for each in recordings):
        yield path, recordings


def _alike(variants: Sequence[Any], found: Any) -> bool:
    """Whether a text has the words that all variants share, or one's words in another order.

    Words with a digit in them are times, sizes, ids and numbers of processes where a text moves, and are not compared.
    Anything but a text of as many words is alike.
    """
    if not all(isinstance(each, str) for each in (*variants, found)):
        return all(type(each) is type(found) for each in variants) or len({type(each) for each in variants}) > 1
    words = [["0" if any(map(str.isdigit, word)) else word for word in _WORD.findall(each)] for each in variants]
    own = ["0" if any(map(str.isdigit, word)) else word for word in _WORD.findall(found)]
    if any(sorted(each) == sorted(own) for each in words):
        return True
    if len({len(each) for each in words}) != 1:
        return True
    return len(own) == len(words[0]) and all(
        len(set(each[:-1])) > 1 or each[-1] == each[0] for each in zip(*words, own, strict=True)
    )


def _among(moving: Mapping[Path, Sequence[Any]], path: Path, found: Any) -> bool:
    """Whether a direct run had this at another place of the same list, whose items it mixes."""
    return any(
        found in variants
        for place, variants in moving.items()
        if len(place) == len(path) and {type(a) for a, b in zip(place, path, strict=True) if a != b} == {int}
    )


def differences(
    direct: Any, through: Any, moving: Mapping[Path, Sequence[Any]], path: Path = ()
) -> Iterator[tuple[Path, Any, Any]]:
    """Where they differ, apart from the places that move."""
    if path in moving:
        if not _alike(moving[path], through) and not _among(moving, path, through):
            yield path, direct, through
    elif isinstance(direct, dict) and isinstance(through, dict):
        for name in sorted(direct.keys() | through.keys()):
            yield from differences(direct.get(name), through.get(name), moving, (*path, name))
    elif isinstance(direct, list) and isinstance(through, list) and len(direct) == len(through):
        for place, (left, right) in enumerate(zip(direct, through, strict=True)):
            yield from differences(left, right, moving, (*path, place))
    elif type(direct) is not type(through) or direct != through:
        yield path, direct, through


def _named(items: Any, key: str, begins: str) -> Any:
    """A list as a mapping by name, without what a way puts before names; the order is a place of its own."""
    if not isinstance(items, list):
        return items
    own = [{**item, key: str(item[key]).removeprefix(begins)} for item in items if str(item[key]).startswith(begins)]
    order = tuple(item[key] for item in own if not item[key].startswith(OWN))
    return {"order": order, "items": {item[key]: item for item in own}}


def parts(recording: Recording, way: str, entry: Entry) -> dict[str, Any]:
    """What is compared, by part."""
    found: dict[str, Any] = {"initialize": recording.initialized}
    for when, lists in (("", recording.lists), ("later: ", recording.later)):
        for method, items in lists.items():
            resources = method.startswith("resources")
            key = "name" if not resources else "uri" if method == "resources/list" else "uriTemplate"
            found[when + method] = _named(items, key, "" if resources else prefix(way, entry.name))
    found.update({step.title: answer for step, answer in recording.answers.items() if not entry.varying(step.name)})
    return found


def compared(entry: Entry, way: str, direct: Sequence[Recording], through: Recording) -> Iterator[Difference]:
    """All differences of a way, apart from what differs among the direct runs."""
    first, *others = [parts(recording, "direct", entry) for recording in direct]
    have = parts(through, way, entry)
    for part, wanted in first.items():
        if skipped(way, part):
            continue
        if is_list(part) and "order" not in wanted:
            if "order" in have[part]:
                yield Difference(entry.name, way, part, (), wanted, have[part])
            continue
        moving = dict(unstable([wanted, *(other.get(part) for other in others)]))
        told, note = without_note(have.get(part))
        if note is not None:
            yield Difference(entry.name, way, part, ("note",), None, note)
        tool = part.partition(" ")[2].partition(": ")[0]
        for path, left, right in differences(wanted, told, moving):
            if not entry.varying("/".join([tool, *map(str, path[1:])])):
                yield Difference(entry.name, way, part, path, left, right)


def without_note(answer: Any) -> tuple[Any, str | None]:
    """An error as the server gave it, and what the gateway added after it; ``None`` where it added nothing."""
    found = answer if isinstance(answer, dict) else {}
    message, between, note = str(found.get("error", {}).get("message", "")).partition(f"\n{NOTE}")
    if between:
        return {**found, "error": {**found["error"], "message": message}}, NOTE + note
    result = found.get("result", {})
    content: Any = (result.get("content") if result.get("isError") else None) or [None]
    last = content[-1]
    text = last.get("text") if isinstance(last, dict) else None
    if not isinstance(text, str) or not text.startswith(NOTE):
        return answer, None
    return {**found, "result": {**result, "content": content[:-1]}}, text


def is_list(part: str) -> bool:
    """Whether a part is a list, at either reading."""
    return part.removeprefix("later: ") in LISTS


def skipped(way: str, part: str) -> bool:
    """Whether a part has no counterpart on a way: ``call_tool`` calls tools only, one gateway of all greets for all."""
    method = part.removeprefix("later: ").split(" ")[0]
    if way == "call_tool":
        return method != "tools/call"
    return way == "all" and (
        part == "initialize" or part in LISTS or (method.startswith("resources/") and method in LISTS)
    )
