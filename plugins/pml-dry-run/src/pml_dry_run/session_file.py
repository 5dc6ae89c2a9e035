"""Recordings as a file: JSON Lines, the first of which says the version.

.. code-block:: json

    {"pml_recordings": 1, "exported_at": "2026-01-01T00:00:00+00:00"}
    {"definition": {"name": "read", "inputSchema": {}}, "digest": "9f…", "tool": "files:read"}
    {"recording": {"tool": "files:read", "digest": "9f…", "arguments": {}, "kind": "result", "answer": {}}}

``answer`` is the answer itself where writing it compactly gives the bytes that came; else ``answer_text`` has them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pml_hookspecs import encode

from .digests import call_digest
from .recording import Recording, RecordingError, from_value
from .recording_writer import epoch

FORMAT = 1
"""Version of the file."""


def lines(recordings: Sequence[Recording], definitions: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The file, line by line.

    Args:
        recordings: The newest first; they are written in the order in which they were recorded.
        definitions: Of the tools, by digest, as far as they are known.
    """
    yield _line({"pml_recordings": FORMAT, "exported_at": datetime.now(UTC).isoformat(timespec="seconds")})
    in_order = list(reversed(recordings))
    in_order.sort(key=lambda r: (r.recorded_at, r.epoch, r.number))
    for tool, digest in dict.fromkeys((r.tool, r.definition) for r in in_order):
        if (definition := definitions.get(digest)) is not None:
            yield _line({"definition": definition, "digest": digest, "tool": tool})
    for recording in in_order:
        yield _line({"recording": _plain(recording)})


def _line(value: Any) -> str:
    return encode(value).decode() + "\n"


def _plain(recording: Recording) -> dict[str, Any]:
    told: dict[str, Any] = {"tool": recording.tool, "digest": recording.definition, "arguments": recording.given}
    if recording.extra != "{}":
        told["extra"] = json.loads(recording.extra)
    told["kind"] = recording.kind
    answer = json.loads(recording.answer)
    same = encode(answer) == recording.answer.encode("utf-8", "surrogatepass")
    told |= {"answer": answer} if same else {"answer_text": recording.answer}
    told |= {"recorded_at": recording.recorded_at, "duration_ms": recording.duration_ms}
    if recording.times > 1:
        told["times"] = recording.times
    return told | ({"redacted": True} if recording.redacted else {})


def read(text: Iterable[str], *, owner: str) -> tuple[list[Recording], dict[str, dict[str, Any]]]:
    """Recordings and definitions by digest that a file has.

    Args:
        text: Its lines.
        owner: Whose recordings they are to be.

    Raises:
        RecordingError: It is no such file, of a newer version, damaged, or has recordings that lost their secrets;
            the message names the line.
    """
    recordings: list[Recording] = []
    definitions: dict[str, dict[str, Any]] = {}
    numbers: dict[str, int] = {}
    now, begun = epoch(), False
    for number, line in enumerate(text, 1):
        if not line.strip():
            continue
        value = _object(line, number)
        if not begun:
            _check_header(value)
            begun = True
        elif "definition" in value:
            definitions[str(value.get("digest"))] = _definition(value, number)
        else:
            made = _recording(value.get("recording"), number, owner, now)
            at = numbers[made.call] = numbers.get(made.call, -1) + 1
            recordings.append(from_value(f"rec-{made.call[:20]}-{now}-{at:02}", {**made.to_value(), "number": at}))
    if not begun:
        raise RecordingError("the file is empty; pml recordings export writes such files")
    return recordings, definitions


def _object(line: str, number: int) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as exc:
        raise RecordingError(f"line {number} is damaged: {exc}") from exc
    if not isinstance(value, dict):
        raise RecordingError(f"line {number} is damaged: it is no JSON object")
    return value


def _check_header(value: Mapping[str, Any]) -> None:
    version = value.get("pml_recordings")
    if type(version) is not int:
        raise RecordingError('it is no file of recordings: its first line does not say {"pml_recordings": 1, …}')
    if version > FORMAT:
        raise RecordingError(f"the file is of version {version}; this pml-dry-run reads up to {FORMAT}: update it")
    if version != FORMAT:
        raise RecordingError(f"the file says that it is of version {version}, which there never was")


def _definition(value: Mapping[str, Any], number: int) -> dict[str, Any]:
    definition = value["definition"]
    if not isinstance(definition, dict) or not isinstance(definition.get("name"), str):
        raise RecordingError(f"line {number} is damaged: a definition is an object with a name")
    return definition


def _recording(value: Any, number: int, owner: str, now: str) -> Recording:
    if not isinstance(value, Mapping):
        raise RecordingError(f"line {number} is damaged: it has neither a definition nor a recording")
    if value.get("redacted"):
        raise RecordingError(
            f"line {number}: the answer of {value.get('tool')} had secrets, which were taken out, so it cannot be "
            "replayed; remove the line"
        )
    tool, digest, arguments = value.get("tool"), value.get("digest"), value.get("arguments")
    extra = value.get("extra", {})
    if not isinstance(extra, dict) or not isinstance(arguments, dict):
        raise RecordingError(f"line {number} is damaged: arguments and extra are objects")
    members = {
        "version": 1,
        "tool": tool,
        "definition": digest,
        "principal": owner,
        "call": call_digest(owner, str(tool), str(digest), arguments, extra),
        "arguments": encode(arguments).decode(),
        "kind": value.get("kind"),
        "answer": value["answer_text"] if "answer_text" in value else encode(value.get("answer")).decode(),
        "recorded_at": value.get("recorded_at"),
        "duration_ms": value.get("duration_ms"),
        "epoch": now,
        "number": 0,
        "times": value.get("times", 1),
        "extra": encode(extra).decode(),
    }
    try:
        return from_value("", members)
    except RecordingError as exc:
        raise RecordingError(f"line {number}: {exc}") from exc
