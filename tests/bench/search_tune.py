"""Tune the table of word pieces that pml-search ships: some minutes of one core, NumPy only.

    python tests/bench/search_tune.py --start TABLE.npz --data DIR --out TABLE.npz

``TABLE.npz`` is the distilled table (its origin is in the NOTICE of pml-search), ``DIR`` has one folder for each set
of ``tests/bench/search.py``, and ``toucan``. Pairs that belong together, a query and a tool that it needs, something
people say and the word of tool definitions for it, or a tool's name and the first sentence of its description, are
moved towards each other and away from the others of their batch (InfoNCE), and every piece is held near where it was.
What several runs make of it is averaged. Queries of ``livemcpbench`` and ``azuremcp`` are left out, so that these two
sets still say what holds for queries that the table has not seen.
"""

from __future__ import annotations

import argparse
import json
import random
from itertools import chain
from pathlib import Path

from pml_search._numpy import np
from pml_search.piece_vectors import SIZE, PieceVectors, tokens
from pml_search.rows import meaning, short
from pml_search.tool_text import read

SETS = ("metatool", "bfcl", "toolbench", "sealtools")
BATCH, EPOCHS, TEMPERATURE, DROPPED = 384, 3, 0.06, 0.1
STEP, HOLD = 0.0009, 0.16
MEAN, SPREAD = 0.9, 0.98
"""Adam's memory of gradients and of their squares."""
MOST_PIECES = 160
RUNS = 3
NAMED, SHORTEST, LONGEST = 4000, 15, 160
"""Tools in a run of which only the name is known to fit, and bounds of the sentence that it fits [characters]."""


def pairs_of(folder, table):
    """Pieces of query and tool, and the tool's id, for each tool that a query needs."""
    tools = {tool["id"]: tool for tool in map(json.loads, (folder / "catalog.jsonl").open(encoding="utf-8"))}
    for query in map(json.loads, (folder / "queries.jsonl").open(encoding="utf-8")):
        groups = query.get("gold_groups") or [[tool] for tool in query["gold"]]
        for group in groups[:6]:
            tool = tools[random.choice(group)]
            definition = {"name": tool["name"], "description": tool.get("description"), "title": tool.get("title")}
            text = meaning(read(tool["server"], definition))[0]
            yield pieces(tokens(query["query"]), table), pieces(text, table), tool["id"]


def names_of(folder, table):
    """Pieces of first sentence and of server and name, for a few tools of a catalog without queries."""
    found = {}
    for tool in map(json.loads, (folder / "catalog.jsonl").open(encoding="utf-8")):
        text = read(tool["server"], {"name": tool["name"], "description": tool.get("description")})
        if len(text.first) >= SHORTEST:
            found[tool["name"], text.first] = (text, tool["id"])
    for text, id in random.sample(list(found.values()), min(NAMED, len(found))):
        named = tokens(f"{short(text.server)} {text.name}")
        yield pieces(tokens(text.first[:LONGEST]), table), pieces(named, table), id


def sayings(path, table):
    """Pieces of what people say and of what is meant, each twice: with one meaning, and with all."""
    for line in path.read_text("utf-8").splitlines():
        head, _, rest = line.partition(":")
        for said in rest.split() if not line.startswith("#") else ():
            for _ in range(2):
                meant = random.choice(head.split()) if random.random() < 0.5 else head
                yield pieces(tokens(said.replace("-", " ")), table), pieces(tokens(meant), table), head


def pieces(words, table):
    return list(chain.from_iterable(map(table._pieces, words)))[:MOST_PIECES]


def batches(kinds):
    """Batches of one kind, whose pairs are hard to tell apart, and half as many again of all kinds."""
    made = []
    for pairs in kinds:
        random.shuffle(pairs)
        made += [pairs[at : at + BATCH] for at in range(0, len(pairs), BATCH) if len(pairs) - at >= BATCH // 8]
    mixed = list(chain.from_iterable(made))
    random.shuffle(mixed)
    made += [mixed[at : at + BATCH] for at in range(0, len(mixed) // 2, BATCH)]
    random.shuffle(made)
    return made


class Bag:
    """Texts as sums of pieces, with the way back for gradients."""

    def __init__(self, texts):
        kept = [[piece for piece in text if random.random() > DROPPED] or text for text in texts]
        self.flat = np.fromiter(chain.from_iterable(kept), np.int64)
        sizes = np.array([len(text) for text in kept])
        self.starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        self.owner = np.repeat(np.arange(len(kept)), sizes)

    def forward(self, vectors):
        total = np.add.reduceat(vectors[self.flat], self.starts, axis=0)
        self.length = np.linalg.norm(total, axis=1, keepdims=True) + 1e-9
        self.out = total / self.length
        return self.out

    def backward(self, gradient, into):
        gradient = (gradient - (gradient * self.out).sum(axis=1, keepdims=True) * self.out) / self.length
        order = np.argsort(self.flat, kind="stable")
        rows, first = np.unique(self.flat[order], return_index=True)
        into[rows] += np.add.reduceat(gradient[self.owner[order]], first, axis=0)
        return rows


def tune(vectors, kinds):
    """Move ``vectors`` in place."""
    start, size = vectors.copy(), np.linalg.norm(vectors, axis=1).mean()
    mean, spread = np.zeros_like(vectors), np.zeros_like(vectors)
    for epoch in range(EPOCHS):
        made = batches(kinds)
        loss = 0.0
        for number, batch in enumerate(made):
            left, right = Bag([pair[0] for pair in batch]), Bag([pair[1] for pair in batch])
            asked, tools = left.forward(vectors), right.forward(vectors)
            same = np.array([pair[2] for pair in batch])
            alike = (same[:, None] == same[None]) & ~np.eye(len(batch), dtype=bool)
            scores = np.where(alike, -1e4, asked @ tools.T / TEMPERATURE)
            rows = np.exp(scores - scores.max(axis=1, keepdims=True))
            columns = np.exp(scores - scores.max(axis=0, keepdims=True))
            rows, columns = rows / rows.sum(axis=1, keepdims=True), columns / columns.sum(axis=0, keepdims=True)
            loss -= np.log(np.diag(rows) + 1e-9).mean() / len(made)
            wrong = np.where(alike, 0, (rows + columns) / 2 - np.eye(len(batch))) / (TEMPERATURE * len(batch))
            gradient = np.zeros_like(vectors)
            touched = np.union1d(left.backward(wrong @ tools, gradient), right.backward(wrong.T @ asked, gradient))
            slope = gradient[touched] + 2 * HOLD / len(touched) * (vectors[touched] - start[touched])
            mean[touched] = MEAN * mean[touched] + (1 - MEAN) * slope
            spread[touched] = SPREAD * spread[touched] + (1 - SPREAD) * slope**2
            left_over = 1 - (epoch + number / len(made)) / EPOCHS
            vectors[touched] -= STEP * left_over * size * mean[touched] / (np.sqrt(spread[touched]) + 1e-6)
        drift = np.linalg.norm(vectors - start) / np.linalg.norm(start)
        print(f"epoch {epoch}: loss {loss:.3f}, moved by {drift:.3f}")


def pack(vectors):
    """Four bits a number, and for each row the scale that loses least."""
    best = None
    for share in (1, 0.9, 0.8, 0.7, 0.6):
        scale = np.abs(vectors).max(axis=1, keepdims=True) * share / 7 + 1e-12
        whole = np.clip(np.round(vectors / scale), -8, 7)
        lost = ((whole * scale - vectors) ** 2).sum(axis=1, keepdims=True)
        option = (whole, scale, lost)
        if best is not None:
            option = tuple(np.where(lost < best[2], a, b) for a, b in zip(option, best, strict=True))
        best = option
    whole = (best[0] + 8).astype(np.uint8)
    return whole[:, 0::2] | (whole[:, 1::2] << 4), best[1][:, 0].astype(np.float16)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("start", "data", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    given = parser.parse_args()
    table = PieceVectors(given.start.read_bytes())
    with np.load(given.start) as members:
        vocabulary = members["vocab"]
    said = Path(__file__).parents[2] / "plugins/pml-search/src/pml_search/data/thesaurus.txt"
    made = []
    for run in range(RUNS):
        random.seed(run)
        kinds = [[*pairs_of(given.data / name, table)] for name in SETS]
        kinds += [[*names_of(given.data / "toucan", table)], [*sayings(said, table)]]
        made.append(table._unpacked(np.arange(len(table._rows))).reshape(-1, SIZE))
        tune(made[-1], [[pair for pair in kind if pair[0] and pair[1]] for kind in kinds])
    vectors = np.mean(made, axis=0)
    packed, scale = pack(vectors)
    np.savez_compressed(given.out, packed=packed, scale=scale, vocab=vocabulary)


if __name__ == "__main__":
    main()
