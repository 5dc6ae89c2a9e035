"""What agents print, and what is in it."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .settings import Fields, Parser

USUAL: Mapping[str, tuple[str, ...]] = {
    "response": (
        "result",
        "response",
        "output",
        "choices[0].message.content",
        "text",
        "join('', content[?type=='text'].text)",
        "content",
        "message",
    ),
    "error": ("is_error && (result || subtype || 'it says that it failed')", "error.message", "error"),
    "cost_usd": ("total_cost_usd", "cost_usd"),
    "tokens_in": (
        "usage.input_tokens && sum(usage.[input_tokens, cache_creation_input_tokens, cache_read_input_tokens][?@])",
        "usage.prompt_tokens",
        "tokens_in",
    ),
    "tokens_out": ("usage.output_tokens", "usage.completion_tokens", "tokens_out"),
    "context_used": ("context_used",),
    "context_max": ("max(modelUsage.*.contextWindow)", "context_max"),
    "model": ("model", "keys(modelUsage)[0]"),
    "transcript": ("transcript",),
}
"""Where things usually stand in JSON output; the first that is there counts."""
IN_STREAM: Mapping[str, tuple[str, ...]] = {
    "response": (
        "events[?type=='item.completed' && item.type=='agent_message'].item.text | [-1]",
        "events[?type=='assistant'].message.content[?type=='text'].text | [] | [-1]",
    ),
    "error": ("events[?type=='turn.failed'].error.message | [-1]",),
    "tokens_in": ("events[?type=='turn.completed'].usage.input_tokens | [-1]",),
    "tokens_out": ("events[?type=='turn.completed'].usage.output_tokens | [-1]",),
    "model": ("events[?type=='system'].model | [-1]",),
}
"""Where they usually stand among JSON lines, when the last result does not have them."""
NUMBERS = ("cost_usd", "tokens_in", "tokens_out", "context_used", "context_max")
LARGEST = 10**12
"""Largest number that is believed of what an agent reports."""
LONGEST_LABEL = 100
"""Characters of a sign of progress."""


class UnreadableError(Exception):
    """The output is not what the agent's parser reads. The message says why."""


@dataclass(slots=True, kw_only=True)
class Answer:
    """What an agent answered."""

    response: str = ""
    error: str = ""
    """Why it failed, in its own words; ``""`` when it did not."""
    cost_usd: float | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    context_used: int | None = None
    context_max: int | None = None
    model: str = ""
    transcript: Sequence[Mapping[str, Any]] | None = None
    remarks: list[str] = field(default_factory=list)
    """What whoever reads the answer should know, such as that its middle was left out."""


class OutputExcerpt:
    """The beginning and the end of an output that may be too long to keep whole."""

    def __init__(self, limit_bytes: int) -> None:
        self._half = limit_bytes // 2
        self._head, self._tail = bytearray(), bytearray()
        self.size = 0
        """Size of the whole output [bytes]."""

    def take(self, data: bytes) -> None:
        """Append."""
        self.size += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data[-self._half :]
            if len(self._tail) > 2 * self._half:
                del self._tail[: -self._half]

    @property
    def left_out(self) -> int:
        """How much is not kept [bytes]."""
        return max(0, self.size - len(self._head) - min(len(self._tail), self._half))

    def text(self) -> str:
        """What is kept, with a note where something was left out."""
        tail = bytes(self._tail[-self._half :])
        if not self.left_out:
            return (bytes(self._head) + tail).decode(errors="replace")
        note = f"\n[… {self.left_out} bytes left out …]\n"
        return self._head.decode(errors="replace") + note + tail.decode(errors="replace")


class Text:
    """The output is the response."""

    def __init__(self, limit_bytes: int, paths: Fields) -> None:
        self._kept = OutputExcerpt(limit_bytes)

    def take(self, data: bytes) -> None:
        """Some output."""
        self._kept.take(data)

    def answer(self) -> Answer:
        """At the end."""
        answer = Answer(response=self._kept.text().strip())
        if self._kept.left_out:
            answer.remarks.append(f"{self._kept.left_out} bytes of its output were left out")
        return answer


class Json:
    """The output is one JSON value, or its last line is one."""

    def __init__(self, limit_bytes: int, paths: Fields) -> None:
        self._kept, self._limit_bytes, self._paths = OutputExcerpt(limit_bytes), limit_bytes, paths

    def take(self, data: bytes) -> None:
        """Some output."""
        self._kept.take(data)

    def answer(self) -> Answer:
        """At the end.

        Raises:
            UnreadableError: It is not JSON, too long, or has no response.
        """
        if self._kept.left_out:
            raise UnreadableError(f"its output is longer than max_output_bytes ({self._limit_bytes})")
        text = self._kept.text().strip()
        if not text:
            raise UnreadableError("it printed nothing")
        return _needed(read(_value(text), self._paths, USUAL), "its JSON output")


class StreamJson:
    """The output is JSON lines: events, one of which may be the result."""

    def __init__(self, limit_bytes: int, paths: Fields, told: Callable[[int, str], None] | None = None) -> None:
        """``told`` hears of each event: how many there were, and what this one is."""
        self._limit_bytes, self._paths, self._told = limit_bytes, paths, told
        self._line = bytearray()
        self._skipping = False
        self._head: list[Mapping[str, Any]] = []
        self._tail: deque[tuple[int, Mapping[str, Any]]] = deque()
        self._head_bytes = self._tail_bytes = 0
        self._left_out = self._noise = self._count = 0
        self._result: Mapping[str, Any] = {}

    def take(self, data: bytes) -> None:
        """Some output, cut anywhere."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._append(line)
            self._ended()
        self._append(rest)

    def _append(self, data: bytes) -> None:
        if len(self._line) + len(data) > self._limit_bytes:
            self._skipping = True
            self._line.clear()
        if not self._skipping:
            self._line += data

    def _ended(self) -> None:
        line, skipped = bytes(self._line), self._skipping
        self._line.clear()
        self._skipping = False
        if skipped:
            self._left_out += 1
            return
        if not line.strip():
            return
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            self._noise += 1
            return
        if isinstance(event, dict):
            self._event(event, len(line))
        else:
            self._noise += 1

    def _event(self, event: Mapping[str, Any], size: int) -> None:
        self._count += 1
        if event.get("type") == "result":
            self._result = event
        half = self._limit_bytes // 2
        if not self._tail and self._head_bytes + size <= half:
            self._head.append(event)
            self._head_bytes += size
        else:
            self._tail.append((size, event))
            self._tail_bytes += size
            while self._tail_bytes > half and len(self._tail) > 1:
                self._tail_bytes -= self._tail.popleft()[0]
                self._left_out += 1
        if self._told is not None:
            self._told(self._count, _label(event))

    def answer(self) -> Answer:
        """At the end.

        Raises:
            UnreadableError: There is no event, or no response among them.
        """
        if self._line or self._skipping:
            self._ended()
        events = [*self._head, *(event for _, event in self._tail)]
        if not events:
            raise UnreadableError("it printed no line of JSON")
        answer = read({"result": self._result, "events": events}, self._paths, {})
        usual = read(self._result, None, USUAL)
        among = read({"events": events}, None, IN_STREAM)
        for source in (usual, among, Answer(context_used=_context_used(events))):
            _complete(answer, source)
        if answer.transcript is None:
            answer.transcript = events
        if self._left_out:
            answer.remarks.append(f"{self._left_out} of its events were left out")
        if self._noise:
            answer.remarks.append(f"{self._noise} lines of its output are not JSON")
        return _needed(answer, "its events")


Reader = Text | Json | StreamJson


def reader(parser: Parser, limit_bytes: int, paths: Fields, told: Callable[[int, str], None] | None = None) -> Reader:
    """What takes the output and makes an answer of it."""
    if parser == "stream-json":
        return StreamJson(limit_bytes, paths, told)
    return Json(limit_bytes, paths) if parser == "json" else Text(limit_bytes, paths)


def read(value: Any, paths: Fields | None, usual: Mapping[str, tuple[str, ...]]) -> Answer:
    """What stands in ``value``, by the paths given, or where there is none, by the usual ones."""
    answer = Answer()
    for name in USUAL:
        own = "" if paths is None else str(getattr(paths, name))
        found = next(_found((own,) if own else usual.get(name, ()), value), None)
        if found is None:
            continue
        if name in NUMBERS:
            setattr(answer, name, _number(found, whole=name != "cost_usd"))
        elif name == "transcript":
            answer.transcript = _lines(found)
        else:
            setattr(answer, name, found if isinstance(found, str) else json.dumps(found, ensure_ascii=False))
    return answer


def _found(expressions: Sequence[str], value: Any) -> Iterator[Any]:
    from jmespath.exceptions import JMESPathError

    for expression in expressions:
        try:
            found = _compiled(expression).search(value)
        except (JMESPathError, TypeError, ValueError, ArithmeticError, RecursionError):
            continue
        if not (found is None or found is False or found in ("", [], {})):
            yield found


@cache
def _compiled(expression: str) -> Any:
    import jmespath

    return jmespath.compile(expression)


def _number(found: Any, *, whole: bool) -> Any:
    # Neither is what is no number (NaN) in there, nor what is too large for a float.
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 <= found <= LARGEST:
        return None
    return round(found) if whole else float(found)


def _lines(found: Any) -> list[Mapping[str, Any]]:
    lines = found if isinstance(found, list) else [found]
    return [line if isinstance(line, dict) else {"type": "text", "text": line} for line in lines]


def _complete(answer: Answer, source: Answer) -> None:
    """Add what ``source`` knows and ``answer`` does not."""
    for name in USUAL:
        if getattr(answer, name) in (None, ""):
            setattr(answer, name, getattr(source, name))


def _needed(answer: Answer, where: str) -> Answer:
    """``answer``, if it says anything.

    Raises:
        UnreadableError: It has neither a response nor an error.
    """
    if not answer.response and not answer.error:
        raise UnreadableError(f"there is no response in {where}; set fields.response to where it stands")
    return answer


def _value(text: str) -> Any:
    for candidate in (text, text.rpartition("\n")[2]):
        try:
            value = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        # Some print all events as one array, with the result at its end.
        if isinstance(value, list) and value and isinstance(value[-1], dict):
            value = value[-1]
        return value
    raise UnreadableError("its output is not JSON")


def _context_used(events: Sequence[Mapping[str, Any]]) -> int | None:
    """What the last request to the model held, and its answer; that of agents within the agent does not count."""
    for event in reversed(events):
        message = event.get("message")
        usage = message.get("usage") if isinstance(message, dict) and not event.get("parent_tool_use_id") else None
        if isinstance(usage, dict):
            names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
            counts = [usage[name] for name in names if isinstance(usage.get(name), int)]
            return sum(counts) if counts else None
    return None


def _label(event: Mapping[str, Any]) -> str:
    """What an event is, for people who wait."""
    message = event.get("message")
    blocks = message.get("content") if isinstance(message, dict) else None
    for block in blocks if isinstance(blocks, list) else ():
        if not isinstance(block, dict):
            continue
        if block.get("type") == "tool_use":
            return f"uses {block.get('name')}"[:LONGEST_LABEL]
        if block.get("type") == "text" and isinstance(block.get("text"), str) and block["text"].strip():
            return str(block["text"]).strip().splitlines()[0][:LONGEST_LABEL]
    return str(event.get("type") or "")[:LONGEST_LABEL]


def shortened(transcript: Sequence[Mapping[str, Any]], limit_bytes: int) -> Sequence[Mapping[str, Any]]:
    """``transcript``, or its beginning and end when it is longer than that."""
    sizes = [len(json.dumps(line, ensure_ascii=False, default=str)) for line in transcript]
    if sum(sizes) <= limit_bytes:
        return transcript
    head: list[Mapping[str, Any]] = []
    tail: list[Mapping[str, Any]] = []
    room = limit_bytes // 2
    for line, size in zip(transcript, sizes, strict=True):
        if (room := room - size) < 0:
            break
        head.append(line)
    room = limit_bytes // 2
    for line, size in zip(reversed(transcript[len(head) :]), reversed(sizes[len(head) :]), strict=True):
        if (room := room - size) < 0:
            break
        tail.append(line)
    left_out = len(transcript) - len(head) - len(tail)
    return [*head, {"type": "left_out", "lines": left_out}, *reversed(tail)]
