"""What the index keeps of each tool by itself, so that a changed catalog costs only what changed."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import structure
from ._numpy import NDArray, np
from .lexical import FIELDS
from .piece_vectors import SIZE, PieceVectors, tokens, unit
from .tool_text import ToolText, read, sentences, text_of
from .vectors import PackedVectors, packed
from .vectors import joined as joined_vectors
from .words import split, terms_of

REPEATED, LONG_ENOUGH = 4, 20
"""A sentence is boilerplate that so many tools have and that has so many characters."""
MEANT_BY, FIRST_MEANT_BY = 300, 160
"""How much of a description, and of its first sentence, takes part in a tool's vector [characters]."""
FIRST_SHARE = 0.4
"""What name and first sentence by themselves add to a tool's vector."""
MOST_TIMES = 255
AT_ONCE = 1000
"""Tools read together: bounds the memory that building takes."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool as the index wants it."""

    id: str
    server: str
    definition: Mapping[str, Any]
    """Wire JSON, as the server sent it."""
    digest: str
    """Changes when the definition changes."""
    about_server: str = ""
    """What the server says of itself, if known."""


@dataclass(slots=True)
class Vocabulary:
    """Words of the catalog."""

    places: dict[str, int] = field(default_factory=dict)
    """By term."""
    spellings: list[str] = field(default_factory=list)
    """By place: a word as tools write it, of several the shortest, then the first of the alphabet."""

    def place(self, term: str, word: str) -> int:
        """The place of ``term``, which stands in a tool as ``word``."""
        found = self.places.setdefault(term, len(self.places))
        if found == len(self.spellings):
            self.spellings.append(word)
        elif (len(word), word) < (len(self.spellings[found]), self.spellings[found]):
            self.spellings[found] = word
        return found


@dataclass(frozen=True, slots=True)
class Rows:
    """What was read out of each tool, in the order of the tools."""

    keys: tuple[str, ...]
    """By tool: changes when what its row is made from changes."""
    sizes: NDArray[np.int64]
    """By tool: how many of the following entries it has."""
    words: NDArray[np.int32]
    """One entry for each tool, field and word: the word's place in the vocabulary."""
    fields: NDArray[np.uint8]
    times: NDArray[np.uint8]
    vectors: PackedVectors
    """By tool, of length 1."""
    bits: NDArray[np.int32]
    """By tool: actions, input shapes, output shapes, and 1 for what only reads."""

    def chosen(self, tools: Sequence[int]) -> Rows:
        """The rows of these tools, in this order."""
        ends = np.cumsum(self.sizes)
        places = np.array(tools, np.int64)
        sizes = self.sizes[places]
        starts = np.repeat(ends[places] - sizes - (np.cumsum(sizes) - sizes), sizes)
        entries = starts + np.arange(len(starts))
        return Rows(
            tuple(self.keys[tool] for tool in tools),
            sizes,
            self.words[entries],
            self.fields[entries],
            self.times[entries],
            self.vectors.chosen(places),
            self.bits[places],
        )


def joined(parts: Sequence[Rows]) -> Rows:
    """Rows of all ``parts``, one after the other."""
    return Rows(
        tuple(key for part in parts for key in part.keys),
        np.concatenate([part.sizes for part in parts]),
        np.concatenate([part.words for part in parts]),
        np.concatenate([part.fields for part in parts]),
        np.concatenate([part.times for part in parts]),
        joined_vectors([part.vectors for part in parts]),
        np.concatenate([part.bits for part in parts]),
    )


def boilerplate(tools: Iterable[Tool]) -> frozenset[str]:
    """Sentences that many tools share; they say nothing about any of them."""
    found: Counter[str] = Counter()
    for tool in tools:
        found.update(set(_sentences(tool)))
    return frozenset(s for s, times in found.items() if times >= REPEATED and len(s) >= LONG_ENOUGH)


def _sentences(tool: Tool) -> list[str]:
    return sentences(text_of(tool.definition.get("description"))[:4000])


def key(tool: Tool, common: frozenset[str]) -> str:
    """Changes when the row of ``tool`` does: with its definition, its server and the boilerplate in it."""
    left_out = sorted(common.intersection(_sentences(tool))) if common else []
    return hashlib.sha256("\n".join((tool.digest, tool.server, *left_out)).encode("utf-8", "replace")).hexdigest()[:32]


def read_rows(tools: Sequence[Tool], common: frozenset[str], vocabulary: Vocabulary, table: PieceVectors) -> Rows:
    """Read ``tools``, adding their words to the vocabulary."""
    parts = [_read_rows(tools[at : at + AT_ONCE], common, vocabulary, table) for at in range(0, len(tools), AT_ONCE)]
    return joined(parts or [_read_rows((), common, vocabulary, table)])


def _read_rows(tools: Sequence[Tool], common: frozenset[str], vocabulary: Vocabulary, table: PieceVectors) -> Rows:
    words: list[int] = []
    fields: list[int] = []
    times: list[int] = []
    sizes: list[int] = []
    bits: list[tuple[int, int, int, int]] = []
    whole: list[list[str]] = []
    first: list[list[str]] = []
    for tool in tools:
        text = read(tool.server, tool.definition, common)
        before = len(words)
        for place, name in enumerate(FIELDS):
            found = (vocabulary.place(term, word) for word in split(getattr(text, name)) for term in terms_of(word))
            counted = Counter(found)
            words += counted.keys()
            times += (min(count, MOST_TIMES) for count in counted.values())
            fields += [place] * len(counted)
        sizes.append(len(words) - before)
        bits.append(_bits(tool.definition, text))
        for into, part in zip((whole, first), meaning(text), strict=True):
            into.append(part)
    vectors = unit(table.encode(whole) + np.float32(FIRST_SHARE) * table.encode(first))
    return Rows(
        tuple(key(tool, common) for tool in tools),
        np.array(sizes, np.int64),
        np.array(words, np.int32),
        np.array(fields, np.uint8),
        np.array(times, np.uint8),
        packed(vectors.reshape(len(tools), SIZE)),
        np.array(bits, np.int32).reshape(len(tools), 4),
    )


def meaning(text: ToolText) -> tuple[list[str], list[str]]:
    """The two texts that make a tool's vector, tokenized: all of it, and name with first sentence."""
    name = text.name.strip()
    whole = f"{text.first}{text.rest}"[:MEANT_BY]
    return tokens(f"{short(text.server)} {name}: {whole}"), tokens(f"{name}: {text.first[:FIRST_MEANT_BY]}")


def short(server: str) -> str:
    """A server's name without the name of who publishes it."""
    return server.rsplit("/", 1)[-1]


def _bits(definition: Mapping[str, Any], text: ToolText) -> tuple[int, int, int, int]:
    verbs = structure.action_bits([*split(text.name), *split(text.first)[:2]])
    reads = int(structure.effect(definition) == "read")
    return verbs, structure.input_shapes(definition), structure.output_shapes(definition), reads
