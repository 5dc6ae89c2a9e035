"""Say why a tool was found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ._numpy import np
from .lexical import FIELDS
from .ranker import RankedTools, Ranker

FIELD_TITLES = dict(
    zip(FIELDS, ("name", "server", "first sentence", "description", "parameters", "parameter texts"), strict=True)
)
SHOWN_DIGITS = 3


def of_query(found: RankedTools) -> dict[str, Any]:
    """How the query was read, and how much anything fits it."""
    parts = found.evidence.parts
    return {
        "read_as": parts[0].read_as or None,
        "clauses": [part.text for part in parts[1:]],
        "best_cosine": _rounded(found.evidence.cosine.max()),
        "best_share_of_words": _rounded(found.evidence.share.max()),
    }


def of_match(ranker: Ranker, found: RankedTools, rank: int) -> dict[str, Any]:
    """What speaks for the tool at ``rank``, counted from 0."""
    evidence, tool = found.evidence, int(found.tools[rank])
    clause = int(evidence.total[1:, tool].argmax()) + 1 if len(evidence.parts) > 1 else 0
    return {
        "score": _rounded(evidence.score[tool]),
        "fit": _rounded(1 / (1 + np.exp(-found.fits[rank]))),
        "probability": _rounded(found.probability[rank]),
        "words": _words(ranker, found, tool),
        "share_of_words": _rounded(evidence.share[0, tool]),
        "cosine": _rounded(evidence.cosine[0, tool]),
        "model": None if evidence.model is None else _rounded(evidence.model[0, tool]),
        "past": _rounded(found.past.get(tool, 0)),
        "server": _rounded(evidence.server[tool]),
        "structure": _rounded(evidence.structure[tool]),
        "clause": evidence.parts[clause].text if clause else None,
        "clause_score": _rounded(evidence.total[clause, tool]) if clause else None,
    }


def lines_of(explained: Mapping[str, Any] | None) -> Iterator[str]:
    """What :func:`of_match` says, for people: each word with its share of the score, and then the rest."""
    if explained is None:
        return
    for word in explained["words"]:
        written = "" if word["as"] == word["word"] else f" as {word['as']!r}"
        yield f"{word['share']:.3f} word {word['word']!r}{written} in {', '.join(word['in'])}"
    yield (
        f"cosine {explained['cosine']}, server {explained['server']}, structure {explained['structure']}, "
        f"share of words {explained['share_of_words']}: score {explained['score']}, "
        f"fit {explained['fit']}, P {explained['probability']}"
    )
    if explained["past"]:
        yield f"used before for the like: {explained['past']}"
    if explained["model"] is not None:
        yield f"cosine of the model: {explained['model']}"
    if explained["clause"]:
        yield f"best clause ({explained['clause_score']}): {explained['clause']}"


def _words(ranker: Ranker, found: RankedTools, tool: int) -> list[dict[str, Any]]:
    """The words of the query that the tool has: as asked, as written there, where, and what they add to the score."""
    data, evidence = ranker.data, found.evidence
    start = int(data.rows.sizes[:tool].sum())
    entries = slice(start, start + int(data.rows.sizes[tool]))
    words, fields = data.rows.words[entries], data.rows.fields[entries]
    ideal = sum(sought.worth(data.postings) for sought in evidence.parts[0].words) or 1.0
    matched = []
    for sought in evidence.parts[0].words:
        best, gain = None, 0.0
        for word, fit in sought.found:
            tools, gains = data.postings.of(word)
            at = int(np.searchsorted(tools, tool))
            if at < len(tools) and tools[at] == tool and float(gains[at]) * fit > gain:
                best, gain = word, float(gains[at]) * fit
        if best is not None:
            places = sorted({int(field) for field in fields[words == best]})
            matched.append(
                {
                    "word": sought.word,
                    "as": data.vocabulary.spellings[best],
                    "in": [FIELD_TITLES[FIELDS[place]] for place in places],
                    "share": _rounded(sought.weight * gain / ideal),
                }
            )
    return matched


def _rounded(value: Any) -> float:
    return round(float(value), SHOWN_DIGITS)
