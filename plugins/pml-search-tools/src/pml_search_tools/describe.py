"""Say what a tool does, and how it is called, in few words. Reads definitions of any quality and never raises."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from pml_kit.schema.intersection import type_of
from pml_kit.schema.type_tree import Array, Const, Object, Type, Union, read

LONGEST_SENTENCE = 160
LONGEST_PARAGRAPH = 10_000
LONGEST_SIGNATURE = 400
LONGEST_TYPE = 120
"""Bounds [characters]. What has a longer type is shown without its inside."""
MOST_STEPS, MOST_CHOICES = 500, 60
"""Steps of reading one schema, and choices of which some may be told."""
DEEPEST = 5
"""Levels of a schema that are looked at: schemas can contain themselves."""
END = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!etc)[.!?](?=\s)|[\u3002\uff01\uff1f]")


def first_sentence(description: str) -> str:
    """The first sentence of the first paragraph, at most :data:`LONGEST_SENTENCE` characters; ``""`` for nothing."""
    text = description.strip()[:LONGEST_PARAGRAPH]
    text = " ".join(re.split(r"\n\s*\n", text, maxsplit=1)[0].split())
    if end := END.search(text):
        text = text[: end.end()]
    if len(text) > LONGEST_SENTENCE:
        text = text[: LONGEST_SENTENCE - 1]
        text = f"{text.rpartition(' ')[0] or text}…"
    return text


def signature(schema: Any) -> str:
    """Parameters with their types, required ones first: ``path: string, head?: integer``; ``""`` without any.

    What does not fit into :data:`LONGEST_SIGNATURE` characters is left out, and ``…`` says so.
    """
    text = ""
    for part in _members(read(schema, deepest=DEEPEST, most_steps=MOST_STEPS, most_choices=MOST_CHOICES)):
        longer = f"{text}, {part}" if text else part
        if len(longer) > LONGEST_SIGNATURE:
            return f"{text}, …" if text else "…"
        text = longer
    return text


def _members(type_: Type) -> Iterator[str]:
    members = type_.members if isinstance(type_, Object) else ()
    for member in sorted(members, key=lambda member: not member.required):
        yield f"{member.name}{'' if member.required else '?'}: {_text(member.type)}"


def _text(type_: Type) -> str:
    """One type in the manner of TypeScript; ``any`` for what cannot be told."""
    match type_:
        case Const(value=value):
            return json.dumps(value, ensure_ascii=False)
        case Array(items=items):
            inside = _text(items)
            return f"({inside})[]" if "|" in inside and not inside.endswith("}") else f"{inside}[]"
        case Union(members=several):
            return _union(several)
        case Object():
            return _object(type_)
    return type_


def _union(several: Sequence[Type]) -> str:
    """``a|b``, each once; no null besides others: that a parameter can be left out is said by its name."""
    texts = dict.fromkeys(_text(one) for one in several if one != "null")
    together = "|".join(texts)
    if len(together) <= LONGEST_TYPE or not all(isinstance(one, Const) for one in several):
        return together
    return "|".join(dict.fromkeys(type_of(one.value) for one in several if isinstance(one, Const)))


def _object(type_: Object) -> str:
    inside = ""
    for member in _members(type_):
        inside = f"{inside}, {member}" if inside else member
        if len(inside) > LONGEST_TYPE:
            return "object"
    return f"{{{inside}}}" if inside else "object"
