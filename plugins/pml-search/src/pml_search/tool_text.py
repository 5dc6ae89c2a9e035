"""Read a tool's definition: the texts that it is found by. Takes definitions of any quality and never raises."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pml_kit.schema.members import parameters

LONGEST_DESCRIPTION, LONGEST_TEXTS, LONGEST_NAMES, MOST_ENUM_VALUES, DEEPEST, MOST_PARAMETERS = (
    2000,
    1500,
    1000,
    20,
    3,
    200,
)
"""Bounds on what one tool can put into the index [characters, values, levels, parameters]."""
FIRST_SENTENCE = 240
SENTENCE_END = re.compile(r"(?<=[\w)\"'`])[.!?](?=\s)|[\u3002\uff01\uff1f]|\n")
SENTENCES = re.compile(r"(?<=[.!?\u3002])\s+|\n+")


@dataclass(frozen=True, slots=True)
class ToolText:
    """What one tool says about itself, field by field."""

    name: str
    server: str
    first: str
    """The first sentence of the description."""
    rest: str
    """The rest of the description."""
    parameters: str
    """Names of the parameters, nested ones included."""
    texts: str
    """Descriptions and choices of the parameters."""


def read(server: str, definition: Mapping[str, Any], boilerplate: Iterable[str] = ()) -> ToolText:
    """Take the texts out of a definition.

    Args:
        server: The tool's server.
        definition: Wire JSON of the tool.
        boilerplate: Sentences to leave out of the description because they say nothing about this tool.
    """
    description = without(text_of(definition.get("description"))[: 2 * LONGEST_DESCRIPTION], boilerplate)
    first = first_sentence(description)
    annotations = definition.get("annotations")
    title = definition.get("title") or (annotations.get("title") if isinstance(annotations, Mapping) else "")
    names, texts = [], []
    for name, schema in parameters(definition.get("inputSchema"), deepest=DEEPEST, most=MOST_PARAMETERS):
        names.append(name)
        texts.append(text_of(schema.get("description")))
        values = schema.get("enum")
        texts += [str(value) for value in values[:MOST_ENUM_VALUES]] if isinstance(values, list) else []
    return ToolText(
        name=f"{text_of(definition.get('name'))} {text_of(title)}"[:LONGEST_NAMES],
        server=server,
        first=first,
        rest=description[len(first) : LONGEST_DESCRIPTION],
        parameters=" ".join(names)[:LONGEST_NAMES],
        texts=" ".join(filter(None, texts))[:LONGEST_TEXTS],
    )


def text_of(value: Any) -> str:
    """``value`` if it is text, else ``""``."""
    return value if isinstance(value, str) else ""


def sentences(description: str) -> list[str]:
    """The sentences of a description; none are empty."""
    return [part for part in map(str.strip, SENTENCES.split(description)) if part]


def without(description: str, boilerplate: Iterable[str]) -> str:
    """``description`` without sentences that are boilerplate, unless it is nothing else."""
    if not boilerplate:
        return description.strip()
    kept = [sentence for sentence in sentences(description) if sentence not in boilerplate]
    return "\n".join(kept) or description.strip()


def first_sentence(description: str) -> str:
    """The first sentence; what ends very early, such as an abbreviation, takes the next one along."""
    for found in SENTENCE_END.finditer(description, 15):
        return description[: min(found.end(), FIRST_SENTENCE)]
    return description[:FIRST_SENTENCE]
