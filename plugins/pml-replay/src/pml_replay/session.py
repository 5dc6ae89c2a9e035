"""A recorded session: what ``pml recordings export`` writes (JSON Lines, version 1), read and looked up."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pml_hookspecs import RawObject, encode, split_tool_id

FORMAT = 1
KINDS = ("result", "error", "refusal")
MOST_EXACT = 2.0**53
SHOWN = 300
"""Characters of arguments in a message."""


class SessionError(Exception):
    """The file cannot be used; the message says why, and where."""


class UnmatchedError(Exception):
    """Nothing is recorded for a call; the message names the nearest recording."""

    def __init__(self, message: str, nearest: Mapping[str, Any] | None) -> None:
        super().__init__(message)
        self.nearest = nearest
        """Its arguments; None when the tool has no recording at all."""


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """One recorded answer."""

    tool: str
    arguments: Mapping[str, Any]
    kind: Literal["result", "error", "refusal"]
    answer: RawObject
    times: int


@dataclass(slots=True)
class Calls:
    """The answers to one call, in order."""

    answers: list[RecordedAnswer] = field(default_factory=list)
    asked: int = 0
    """Times that it was asked for."""


class Session:
    """The recordings of a file, and how far their replay has got."""

    def __init__(
        self, name: str, definitions: Mapping[str, Mapping[str, Any]], recorded: Sequence[RecordedAnswer]
    ) -> None:
        """``definitions`` are by tool id; ``name`` is for messages."""
        self.name, self._definitions = name, dict(definitions)
        self._calls: dict[tuple[str, str], Calls] = {}
        self.unmatched: list[str] = []
        """What was asked for and is not recorded, as messages."""
        for one in recorded:
            calls = self._calls.setdefault((one.tool, canonical(one.arguments)), Calls())
            calls.answers += [one] * one.times
            self._definitions.setdefault(
                one.tool, {"name": split_tool_id(one.tool)[1], "inputSchema": {"type": "object"}}
            )

    @property
    def servers(self) -> list[str]:
        """Names of the recorded servers."""
        return sorted({split_tool_id(tool)[0] for tool in self._definitions})

    @property
    def unused(self) -> list[RecordedAnswer]:
        """Answers that nobody asked for."""
        return [one for calls in self._calls.values() for one in calls.answers[calls.asked :]]

    def tools(self, server: str) -> list[Mapping[str, Any]]:
        """Definitions of a server's tools, by name."""
        mine = {tool: d for tool, d in self._definitions.items() if split_tool_id(tool)[0] == server}
        return [mine[tool] for tool in sorted(mine)]

    def answer(self, tool: str, arguments: Mapping[str, Any], *, after_last: str = "repeat") -> RecordedAnswer:
        """The next answer to a call.

        Args:
            tool: ``server:tool``.
            arguments: Compared by value: the order of members does not count.
            after_last: ``repeat`` the last answer once all were given, or ``refuse``.

        Raises:
            UnmatchedError: None is recorded, or left.
        """
        calls = self._calls.get((tool, canonical(arguments)))
        if calls is None:
            raise self._unmatched(tool, arguments)
        nth, calls.asked = calls.asked, calls.asked + 1
        if nth >= len(calls.answers) and after_last == "refuse":
            message = f"{self.name}: {tool} with {_shown(arguments)} is recorded {len(calls.answers)} times, not more."
            self.unmatched.append(message)
            raise UnmatchedError(message, arguments)
        return calls.answers[min(nth, len(calls.answers) - 1)]

    def _unmatched(self, tool: str, arguments: Mapping[str, Any]) -> UnmatchedError:
        given = [json.loads(text) for other, text in self._calls if other == tool]
        message = f"{self.name}: nothing is recorded for {tool} with {_shown(arguments)}."
        nearest = max(given, key=lambda other: _alike(other, arguments), default=None)
        if nearest is None:
            message += f" Recorded tools: {', '.join(sorted({other for other, _ in self._calls})) or 'none'}."
        else:
            message += f" The nearest recording has {_shown(nearest)}: {_difference(nearest, arguments)}."
        self.unmatched.append(message)
        return UnmatchedError(message, nearest)


def canonical(value: Any) -> str:
    """The same text for equal JSON values: members sorted, ``1.0`` written as ``1``."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= MOST_EXACT:
        return int(value)
    return value


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[int, int]:
    """How many members are equal, and how few are in one only."""
    equal = sum(1 for name in one if name in other and canonical(one[name]) == canonical(other[name]))
    return equal, -len(one.keys() ^ other.keys())


def _difference(recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    told = []
    for name in sorted({*recorded, *asked}):
        if name not in asked:
            told.append(f"{name} is missing")
        elif name not in recorded:
            told.append(f"{name} is not in it")
        elif canonical(recorded[name]) != canonical(asked[name]):
            told.append(f"{name} differs")
    return ", ".join(told)


def _shown(arguments: Mapping[str, Any]) -> str:
    text = encode(arguments).decode(errors="replace")
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def load(path: Path) -> Session:
    """The session in a file.

    Raises:
        SessionError: It cannot be read, or used.
    """
    try:
        with path.open(encoding="utf-8") as file:
            return read(file, path.name)
    except OSError as exc:
        raise SessionError(f"{path}: cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise SessionError(f"{path}: is not UTF-8 text (byte {exc.start})") from exc


def read(lines: Iterable[str], name: str) -> Session:
    """The session that the lines of a file tell of.

    Raises:
        SessionError: They are damaged, of a newer version, or have answers whose secrets were taken out.
    """
    definitions: dict[str, Mapping[str, Any]] = {}
    recorded: list[RecordedAnswer] = []
    begun = False
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        value = _object(line, where)
        if not begun:
            _check_header(value, name)
            begun = True
        elif "definition" in value:
            definitions[_text(value.get("tool"), where, "tool")] = _definition(value["definition"], where)
        else:
            recorded.append(_recorded(value.get("recording"), where))
    if not begun:
        raise SessionError(f"{name}: is empty; pml recordings export writes such files")
    if not recorded and not definitions:
        raise SessionError(f"{name}: has no recordings")
    return Session(name, definitions, recorded)


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as exc:
        raise SessionError(f"{where}: is damaged: {exc}") from exc
    if not isinstance(value, dict):
        raise SessionError(f"{where}: is damaged: it is no JSON object")
    return value


def _check_header(value: Mapping[str, Any], name: str) -> None:
    version = value.get("pml_recordings")
    if type(version) is not int:
        raise SessionError(f'{name}: is no file of recordings: its first line does not say {{"pml_recordings": 1, …}}')
    if version > FORMAT:
        raise SessionError(f"{name}: is of version {version}; this pml-replay reads up to {FORMAT}: update it")
    if version != FORMAT:
        raise SessionError(f"{name}: says that it is of version {version}, which there never was")


def _text(value: Any, where: str, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise SessionError(f"{where}: is damaged: {what} is {value!r}")
    return value


def _definition(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise SessionError(f"{where}: is damaged: a definition is an object with a name")
    return value


def _recorded(value: Any, where: str) -> RecordedAnswer:
    if not isinstance(value, Mapping):
        raise SessionError(f"{where}: is damaged: it has neither a definition nor a recording")
    tool = _text(value.get("tool"), where, "tool")
    if value.get("redacted"):
        raise SessionError(
            f"{where}: the answer of {tool} had secrets, which were taken out, so it cannot be replayed; "
            "remove the line"
        )
    arguments, kind, times = value.get("arguments"), value.get("kind"), value.get("times", 1)
    if not isinstance(arguments, dict) or kind not in KINDS or type(times) is not int or times < 1:
        raise SessionError(f"{where}: is damaged: arguments, kind or times of {tool} are impossible")
    answer = RawObject(_answer(value, where).encode("utf-8", "surrogatepass"))
    if kind == "refusal" and not {"code", "message"} <= answer.keys():
        raise SessionError(f"{where}: is damaged: a refusal has a code and a message")
    return RecordedAnswer(tool, arguments, kind, answer, times)


def _answer(value: Mapping[str, Any], where: str) -> str:
    if "answer_text" not in value:
        if not isinstance(value.get("answer"), dict):
            raise SessionError(f"{where}: is damaged: answer is no JSON object")
        return encode(value["answer"]).decode()
    text = _text(value["answer_text"], where, "answer_text")
    _object(text, where)
    return text
