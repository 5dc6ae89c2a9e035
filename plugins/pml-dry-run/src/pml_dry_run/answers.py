"""What a tool would answer: the most believable of what is known, and where it comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pml_hookspecs import encode

from .argument_echo import ArgumentEcho, echoed, normal
from .digests import canonical
from .labels import Source
from .result_shapes import Form, Shape, value_of
from .validators import Validators

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, ToolCall

    from .recording import Kind
    from .recordings import Recordings, ToolRecordings

SECRETS = "its answer had secrets in it that were not recorded"
BEFORE = "it is an error from before the steps of this rehearsal that may have changed what the call is about"


@dataclass(frozen=True, slots=True)
class Answer:
    """A ``CallToolResult`` or a JSON-RPC error, not labelled yet."""

    source: Source
    kind: Kind
    content: Mapping[str, Any]
    about: Mapping[str, Any] = field(default_factory=dict)
    """More for the label."""


class Answers:
    """Makes up answers. Nothing here reaches a server."""

    def __init__(self, recordings: Recordings) -> None:
        self._recordings, self._judges = recordings, Validators()

    async def to(self, task: ToolCall, entry: CatalogEntry | None, principal: str, *, changed: bool) -> Answer:
        """The first that there is of: recorded, example, by schema, by inferred schema, placeholder.

        Args:
            task: The call.
            entry: Its tool; None for one that nobody has.
            principal: Whose call it is.
            changed: Whether the rehearsal itself may have changed what the call is about: an error of before is no
                answer then.
        """
        if entry is None:
            return placeholder(task, ())
        recorded, notes = await self._recorded(task, entry, principal, changed=changed)
        if recorded is not None:
            return recorded
        past = await self._recordings.about(principal, entry)
        notes = [*notes, *(note for note in past.refused if note not in notes)]
        made = self._example(task, entry, past, notes)
        if made is None and past.shape is not None:
            made = self._by_schema(task, entry, past.shape, notes)
        return made or placeholder(task, notes)

    async def _recorded(
        self, task: ToolCall, entry: CatalogEntry, principal: str, *, changed: bool
    ) -> tuple[Answer | None, Sequence[str]]:
        """The last answer that was recorded for this very call: as the real run left things."""
        found, notes = await self._recordings.of_call(self._recordings.call(principal, entry, task))
        if not found:
            return None, notes
        recording = found[-1]
        if recording.redacted:
            return None, [*notes, f"recording {recording.id} cannot be used: {SECRETS}"]
        if changed and recording.kind != "result":
            return None, [*notes, f"recording {recording.id} is not used: {BEFORE}"]
        about = {
            "recorded_at": recording.recorded_at,
            "recording": recording.id,
            "duration_ms": recording.duration_ms,
        }
        return Answer("recorded", recording.kind, recording.result, about), notes

    def _example(
        self, task: ToolCall, entry: CatalogEntry, past: ToolRecordings, notes: Sequence[str]
    ) -> Answer | None:
        """The answer to a call with other arguments, those that it repeats replaced; of several, the most alike."""
        usable = [recording for recording in past.successes if not recording.redacted]
        if not usable:
            return None
        recording = max(usable, key=lambda r: _alike(r.given, task.arguments))
        result = dict(recording.result)
        seen = value_of(result)
        about: dict[str, Any] = {
            "recorded_at": recording.recorded_at,
            "recorded_with": recording.given,
            "recording": recording.id,
            "notes": list(notes),
        }
        if seen is not None and seen.form != "text":
            value = _with_arguments(seen.value, recording.given, task.arguments)
            declared = past.shape
            if declared is not None and declared.source == "declared":
                judge = self._judges.of(entry.digest, declared.schema)
                value = next((v for v in (value, seen.value) if judge(v)), None)
                if value is None:
                    return None
            about["values"] = dict.fromkeys(echoed(value, task.arguments), "argument")
            result = result_of(task, value, seen.form, "example", kept=result if value == seen.value else None)
        return Answer("example", "result", result, about)

    def _by_schema(self, task: ToolCall, entry: CatalogEntry, shape: Shape, notes: Sequence[str]) -> Answer | None:
        """A value made up by the schema. Of a structured result it must be an object, or clients refuse it."""
        from .sample import CannotSampleError, sample  # with the reader of schemas, before whose first use nobody waits

        seed = canonical([entry.id, json.loads(encode(task.arguments))])
        key = entry.digest if shape.source == "declared" else canonical(shape.schema).decode()
        try:
            value = sample(shape.schema, ArgumentEcho(seed, task.arguments), judge=self._judges.of(key, shape.schema))
        except CannotSampleError:
            return None
        if shape.form == "structured" and not isinstance(value, Mapping):
            return None
        source: Source = "schema" if shape.source == "declared" else "inferred"
        about = {
            "values": dict.fromkeys(echoed(value, task.arguments), "argument"),
            "samples": shape.samples or None,
            "notes": list(notes),
        }
        return Answer(source, "result", result_of(task, value, shape.form, source), about)


def placeholder(task: ToolCall, notes: Sequence[str]) -> Answer:
    """The answer where nothing is known about the tool's results."""
    content = {"content": [{"type": "text", "text": said(task)}]}
    return Answer("placeholder", "result", content, {"notes": list(notes)})


def said(task: ToolCall) -> str:
    """The text of a placeholder."""
    return f"Simulated execution of {task.tool}"


def result_of(
    task: ToolCall, value: Any, form: Form, source: str, kept: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A result with ``value`` where the tool would put it.

    A structured one says first, where models read it, that it is simulated. One whose only text block spells the value
    has no room for that: references between steps read it.
    """
    if form == "text":
        return {"content": [{"type": "text", "text": str(value)}]}
    text = {"type": "text", "text": encode(value).decode()}
    if form == "json":
        return dict(kept) if kept is not None else {"content": [text]}
    more = "" if source == "schema" else f" ({source})"
    blocks = kept["content"] if kept is not None and isinstance(kept.get("content"), list) else [text]
    return {"content": [{"type": "text", "text": said(task) + more}, *blocks], "structuredContent": value}


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """How many arguments are the same."""
    return sum(1 for name, value in one.items() if name in other and other[name] == value)


def _with_arguments(value: Any, before: Mapping[str, Any], now: Mapping[str, Any]) -> Any:
    """``value`` with the arguments that it repeats under their names, not inside arrays, replaced by those of now."""
    changed = {normal(name): (before[name], now[name]) for name in before if name in now and before[name] != now[name]}

    def replaced(name: str, member: Any) -> Any:
        old_and_new = changed.get(normal(name))
        if old_and_new is not None and member == old_and_new[0]:
            return old_and_new[1]
        return walked(member)

    def walked(at: Any) -> Any:
        return {name: replaced(name, member) for name, member in at.items()} if isinstance(at, Mapping) else at

    return walked(value)
