"""Say what a tool does, and how it is called, in few words. Reads definitions of any quality and never raises."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pml_hookspecs.schemas import target_of

LONGEST_SENTENCE = 160
LONGEST_PARAGRAPH = 10_000
LONGEST_SIGNATURE = 400
LONGEST_TYPE = 120
"""Bounds [characters]. What has a longer type is shown without its inside."""
MOST_STEPS, PER_STEP, MOST_KINDS = 500, 16, 8
"""Schemas that are looked at, names in the time of one, and kinds of one value."""
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
    for part in _Reader(schema).members(schema, DEEPEST):
        longer = f"{text}, {part}" if text else part
        if len(longer) > LONGEST_SIGNATURE:
            return f"{text}, …" if text else "…"
        text = longer
    return text


class _Reader:
    """Reads one schema. A bounded depth is not bounded work: what is looked at is counted."""

    def __init__(self, root: Any) -> None:
        self._root, self._left = root, MOST_STEPS

    def members(self, schema: Any, depth: int) -> Iterator[str]:
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        if not isinstance(properties, Mapping):
            return
        required = schema.get("required")
        needed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
        self._left -= (len(properties) + len(needed)) // PER_STEP
        for name in sorted(properties, key=lambda name: name not in needed):
            yield f"{name}{'' if name in needed else '?'}: {self._type(properties[name], depth)}"

    def _type(self, schema: Any, depth: int) -> str:
        """One type in the manner of TypeScript; ``any`` for what cannot be told."""
        self._left -= 1
        if not isinstance(schema, Mapping) or depth <= 0 or self._left < 0:
            return "any"
        if isinstance(reference := schema.get("$ref"), str):
            self._left -= len(reference) // PER_STEP
            return self._type(target_of(self._root, reference) if reference[:1] == "#" else None, depth - 1)
        choices = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(choices, list) and (listed := _listed(choices)) is not None:
            return listed or "any"
        for several in ("anyOf", "oneOf"):
            if isinstance(branches := schema.get(several), list):
                return _union([self._type(branch, depth - 1) for branch in branches])
        kinds = schema.get("type")
        kinds = list(dict.fromkeys(map(str, kinds))) if isinstance(kinds, list) else [kinds]
        return _union([self._plain(kind, schema, depth) for kind in kinds[:MOST_KINDS]])

    def _plain(self, kind: Any, schema: Mapping[str, Any], depth: int) -> str:
        if kind == "array":
            inside = self._type(schema.get("items"), depth - 1)
            return f"({inside})[]" if "|" in inside and not inside.endswith("}") else f"{inside}[]"
        if kind == "object":
            inside = ""
            for member in self.members(schema, depth - 1):
                inside = f"{inside}, {member}" if inside else member
                if len(inside) > LONGEST_TYPE:
                    return "object"
            return f"{{{inside}}}" if inside else "object"
        return kind if isinstance(kind, str) else "any"


def _listed(choices: Sequence[Any]) -> str | None:
    """Choices, if they are short."""
    listed = ""
    for choice in choices:
        literal = _literal(choice) if not isinstance(choice, str) or len(choice) <= LONGEST_TYPE else choice
        listed = f"{listed}|{literal}" if listed else literal
        if len(listed) > LONGEST_TYPE:
            return None
    return listed


def _union(types: Sequence[str]) -> str:
    """``a|b``, each once, null only by itself: that a parameter can be left out is said by its name."""
    some = dict.fromkeys(types)
    return "|".join(kind for kind in some if kind != "null" or len(some) == 1) or "any"


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=dict)
