"""A note of one tool, made of calls of it, within a budget of tokens."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CatalogEntry, ExecutionRecord, Status
from pml_kit.mcp.result_values import value_of
from pml_kit.mcp.tokens import estimate
from pml_kit.mcp.tool_schemas import input_schema, output_schema
from pml_kit.offers import ToolNote

from .example import example_of, fits
from .remedy import Call, Change, remedy_of
from .shape import observed, type_texts

if TYPE_CHECKING:
    from pml_hookspecs import Json

MOST_ANSWERS = 5
"""Answers of a tool that are looked into, the newest."""
MOST_CALLS = 100
"""Calls of a tool of which the arguments are looked at, the newest."""
THEIR_FAULT = frozenset({"arguments.invalid", "tool.failed", "tool.refused"})
"""Codes of failures that other arguments may mend."""
SHARE = 2 / 3
"""Of the budget, the most that advice and an example take."""


def note_of(
    entry: CatalogEntry,
    records: Sequence[ExecutionRecord],
    before: ToolNote,
    *,
    tokens: int,
    redact: Callable[[Json], Json],
) -> ToolNote:
    """What calls have shown; where they show nothing of something, what was known before.

    Args:
        entry: The tool.
        records: Executions of it as it is defined now, newest first.
        before: What is known already.
        tokens: Most that is shown of it [tokens].
        redact: Takes out secrets that the gateway knows.
    """
    schema = input_schema(entry)
    ended = [one for one in records[:MOST_CALLS] if "truncated" not in one.request]
    # Arguments that do not fit the schema are of an earlier definition, or no server looks at them.
    good = [one for one in ended if one.status == Status.OK and (schema is None or fits(one.request, schema))]
    bad = [one for one in ended if one.failure is not None and one.failure.code in THEIR_FAULT]
    calls = [
        Call(one.started_at, one.agent, one.request, one.status == Status.OK)
        for one in sorted((*good, *bad), key=lambda one: (one.started_at, one.id))
    ]
    result = None if output_schema(entry) is not None else _result([one for one in good if one.response is not None])
    made = ToolNote(
        result=result or (before.result if output_schema(entry) is None else None),
        arguments=_example(good, schema, redact) or before.arguments,
        **_advice(calls, before),
    )
    return within(made, tokens)


def _advice(calls: Sequence[Call], before: ToolNote) -> dict[str, str]:
    """The members of a note that are about a mistake."""
    if (remedy := remedy_of(calls)) is None:
        return {"advice": before.advice, "before": before.before, "after": before.after}
    # What differs in the kind of a value cannot be told by names.
    names = remedy.change if not remedy.change.parameter else Change("", "", "")
    return {"advice": str(remedy), "before": names.before, "after": names.after}


def within(note: ToolNote, tokens: int) -> ToolNote:
    """``note`` with no more to show than fits: its advice first, then the example, then what results are made of."""
    kept = ToolNote(result=note.result, before=note.before, after=note.after)
    for member in ("advice", "arguments"):
        longer = replace(kept, **{member: getattr(note, member)})
        if size_of(longer) <= tokens * SHARE:
            kept = longer
    texts = type_texts(note.result) if note.result else ()
    written = (replace(kept, returns=text) for text in texts)
    return next((one for one in written if size_of(one) <= tokens), kept)


def size_of(note: ToolNote) -> int:
    """What is shown of it, at most, with the name that it stands under [tokens]."""
    members = note.members()
    return estimate(json.dumps({"seen": members}, ensure_ascii=False, separators=(",", ":"))[1:-1]) if members else 0


def _result(good: Sequence[ExecutionRecord]) -> Mapping[str, Any] | None:
    values = []
    for record in good[:MOST_ANSWERS]:
        answer = record.response
        if not isinstance(answer, Mapping) or "truncated" in answer:
            continue
        value = value_of(answer)
        if value is not answer:
            values.append(value)
    return observed(values) or None


def _example(
    good: Sequence[ExecutionRecord], schema: Mapping[str, Any] | None, redact: Callable[[Json], Json]
) -> Mapping[str, Any] | None:
    """Of the newest call with the usual parameters."""
    usual = Counter(tuple(sorted(one.request)) for one in good)
    if not usual:
        return None
    names = max(usual, key=lambda one: usual[one])
    chosen = next(one for one in good if tuple(sorted(one.request)) == names)
    made: Any = redact(example_of(dict(chosen.request), schema))
    return made if isinstance(made, Mapping) else None
