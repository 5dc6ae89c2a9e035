"""Say what a tool does, and how it is called, in few words. Reads definitions of any quality and never raises."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

LONGEST_SENTENCE = 160
LONGEST_SIGNATURE = 400
LONGEST_TYPE = 120
"""Bounds [characters]. What has a longer type is shown without its inside."""
DEEPEST = 5
"""Levels of a schema that are looked at: schemas can contain themselves."""
END = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!etc)[.!?](?=\s)|[\u3002\uff01\uff1f]")


def first_sentence(description: str) -> str:
    """The first sentence of the first paragraph, at most :data:`LONGEST_SENTENCE` characters; ``""`` for nothing."""
    text = " ".join(re.split(r"\n\s*\n", description.strip(), maxsplit=1)[0].split())
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
    for part in _members(schema, schema, DEEPEST):
        longer = f"{text}, {part}" if text else part
        if len(longer) > LONGEST_SIGNATURE:
            return f"{text}, …" if text else "…"
        text = longer
    return text


def _members(schema: Any, root: Any, depth: int) -> list[str]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return []
    required = schema.get("required")
    needed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    names = sorted(properties, key=lambda name: name not in needed)
    return [f"{name}{'' if name in needed else '?'}: {_type(properties[name], root, depth)}" for name in names]


def _type(schema: Any, root: Any, depth: int) -> str:
    """One type in the manner of TypeScript; ``any`` for what cannot be told."""
    if not isinstance(schema, Mapping) or depth <= 0:
        return "any"
    if isinstance(reference := schema.get("$ref"), str):
        return _type(_referred(reference, root), root, depth - 1)
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(choices, list) and len(listed := "|".join(_literal(choice) for choice in choices)) <= LONGEST_TYPE:
        return listed or "any"
    for several in ("anyOf", "oneOf"):
        if isinstance(branches := schema.get(several), list):
            return _union([_type(branch, root, depth - 1) for branch in branches])
    kinds = schema.get("type")
    return _union([_plain(kind, schema, root, depth) for kind in (kinds if isinstance(kinds, list) else [kinds])])


def _plain(kind: Any, schema: Mapping[str, Any], root: Any, depth: int) -> str:
    if kind == "array":
        inside = _type(schema.get("items"), root, depth - 1)
        return f"({inside})[]" if "|" in inside and not inside.endswith("}") else f"{inside}[]"
    if kind == "object":
        inside = ", ".join(_members(schema, root, depth - 1))
        return f"{{{inside}}}" if inside and len(inside) <= LONGEST_TYPE else "object"
    return kind if isinstance(kind, str) else "any"


def _union(types: Sequence[str]) -> str:
    """``a|b``, each once, null only by itself: that a parameter can be left out is said by its name."""
    some = dict.fromkeys(types)
    return "|".join(kind for kind in some if kind != "null" or len(some) == 1) or "any"


def _referred(reference: str, root: Any) -> Any:
    """What a reference within the same schema points to; None for others."""
    found = root
    for part in filter(None, reference.removeprefix("#").split("/")):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=dict)
