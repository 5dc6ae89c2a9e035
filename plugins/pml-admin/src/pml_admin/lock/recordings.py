"""Recorded calls held against the schemas that servers list now."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pml_hookspecs import CatalogEntry, encode
from pml_kit.errors import OperatorError
from pml_kit.mcp.tool_schemas import input_schema, problem_of
from pml_kit.schema.budget import UnreadableError
from pml_kit.schema.document import Document
from pml_kit.schema.verdicts import fits

FORMAT = 1
LONGEST = 300
"""Characters of arguments in a line."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call that was made, and worked."""

    tool: str
    arguments: Mapping[str, Any]
    times: int


@dataclass(frozen=True, slots=True)
class Complaint:
    """A recorded call that would not be valid any more."""

    tool: str
    arguments: str
    """As JSON, cut where it is long."""
    text: str

    def shown(self) -> dict[str, Any]:
        """As JSON."""
        return {"tool": self.tool, "arguments": self.arguments, "problem": self.text}


def read(path: Path) -> list[RecordedCall]:
    """The calls in a file that ``pml recordings export`` wrote; those that were refused or failed are left out.

    Raises:
        OperatorError: It is none.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
        values = [json.loads(line) for line in lines if line.strip()]
    except (OSError, ValueError) as exc:
        raise OperatorError(f"{path}: cannot be read: {exc}", "pml recordings export writes such files.") from exc
    if not values or not isinstance(values[0], dict) or values[0].get("pml_recordings") != FORMAT:
        raise OperatorError(f'{path}: its first line does not say {{"pml_recordings": {FORMAT}, …}}')
    return [*_calls(values[1:], path)]


def _calls(values: Iterable[Any], path: Path) -> Iterator[RecordedCall]:
    for number, value in enumerate(values, 2):
        recording = value.get("recording") if isinstance(value, dict) else None
        if recording is None or recording.get("kind") != "result":
            continue
        tool, arguments = recording.get("tool"), recording.get("arguments")
        if not isinstance(tool, str) or not isinstance(arguments, dict):
            raise OperatorError(f"{path}, line {number}: is damaged: a recording has a tool and arguments")
        yield RecordedCall(tool, arguments, int(recording.get("times", 1)))


def complaints(calls: Iterable[RecordedCall], listed: Mapping[str, Mapping[str, CatalogEntry]]) -> Iterator[Complaint]:
    """Each call that is not valid now. Of servers that are not in ``listed``, nothing is known."""
    for call in calls:
        server, _, name = call.tool.partition(":")
        if server not in listed:
            continue
        entry = listed[server].get(name)
        problem = "the tool is not listed any more" if entry is None else _problem(call.arguments, entry)
        if problem:
            text = encode(call.arguments).decode(errors="replace")
            yield Complaint(call.tool, text if len(text) <= LONGEST else f"{text[:LONGEST]}…", problem)


def _problem(arguments: Mapping[str, Any], entry: CatalogEntry) -> str:
    schema = input_schema(entry)
    if schema is None:
        return f"nobody can tell whether it is valid: {problem_of(entry)}" if problem_of(entry) else ""
    try:
        document = Document(schema)
        if fits(document, arguments, schema) is not False:
            return ""
        required = schema.get("required", ())
        missing = [name for name in required if name not in arguments]
        if missing:
            return f"{', '.join(missing)} is required now"
        known = schema.get("properties", {})
        wrong = [n for n, v in arguments.items() if n in known and fits(document, v, known[n]) is False]
        unknown = [name for name in arguments if name not in known]
    except UnreadableError as exc:
        return f"nobody can tell whether it is valid: {exc}"
    return f"{', '.join(wrong)} does not fit any more" if wrong else f"{', '.join(unknown)} is not taken any more"
