"""Measure tool search: PML beside others, what each kind of evidence adds, what scores mean, speed and memory.

    python tests/bench/search.py --data DIR [--fastmcp-python PYTHON] [--bm25s-python PYTHON] [--write docs/search.md]

DIR has one folder for each set, with ``catalog.jsonl`` and ``queries.jsonl``. Prints Markdown; with ``--write`` the
tables of that file are replaced. ``--most N`` takes N queries a set, ``--parts`` some parts only.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from pathlib import Path

import search_measures as measures
import search_servers
import search_speed
import search_wishes

from pml_hookspecs import replace

SETS = ("livemcpbench", "azuremcp", "metatool", "bfcl", "toolbench", "sealtools")
UNSEEN = ("livemcpbench", "azuremcp")
"""Sets whose queries the table of word pieces was not tuned with: means are of these alone."""
MEANS = ("nDCG@10", "R@1", "R@5")
PARTS = ("ranking", "tuned", "ablations", "calibration", "wishes", "servers", "speed")
PEERS = Path(__file__).with_name("search_peers.py")
TITLES = {
    "pml": "**PML**",
    "words": "PML without pml-search",
    "bm25s": "BM25 (bm25s)",
    "fts5": "SQLite FTS5",
    "fastmcp": "FastMCP, search transform",
}
ABLATIONS = {
    "all evidence": {},
    "without meaning (words only)": {"meaning": 0, "server": 0},
    "without words (meaning only)": {"words": 0},
    "without synonyms": {"synonyms": False},
    "without spelling": {"spelling": False},
    "without other languages": {"translation": False},
    "without the server": {"server": 0},
    "without clauses": {"clauses": 0},
    "without structure (actions, shapes, values)": {"actions": 0, "shapes": 0, "values": 0},
}
NOTHING_FITS = (
    "water the plants on my balcony", "bake a sourdough bread", "tune my guitar", "knit me a pullover", "hello",
    "what is the meaning of life", "asdfgh qwertz", "train my puppy to sit", "iron my shirts", "wash the dishes",
    "who will win the lottery", "paint the garden fence", "repair the dripping tap", "fold a paper plane",
    "feed the horses", "sharpen the kitchen knives", "tell my neighbour to be quiet", "mow the lawn", "!!!",
    "brush my teeth",
)  # fmt: skip
"""What none of the tools of the two sets that are asked can do."""


def commands(given):
    """By subject, the command that speaks the protocol; peers without an interpreter are left out."""
    found = {"pml": [str(Path(sys.executable).with_name("pml")), "search", "--jsonl"]}
    found |= {name: [sys.executable, str(PEERS), name] for name in ("words", "fts5")}
    for name in ("bm25s", "fastmcp"):
        if interpreter := getattr(given, f"{name}_python"):
            found[name] = [interpreter, str(PEERS), name]
    return found


def table(header, rows):
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def ranking(sets, given):
    """All subjects on the sets that nothing was tuned with."""
    unseen = [some for some in sets if some.name in UNSEEN]
    rows = []
    for name, command in commands(given).items():
        found = [measures.ask(command, some).summary(some.queries) for some in unseen]
        quality = [f"{one['nDCG@10']:.3f}" for one in found]
        quality += [f"{statistics.fmean(one[key] for one in found):.3f}" for key in MEANS]
        speeds = [f"{one['p50']:.1f}" for one in found]
        rows.append([TITLES[name], *quality, " / ".join(speeds), f"{max(one['memory'] for one in found):.0f}"])
        print(" ".join(rows[-1]), file=sys.stderr)
    names = [some.name for some in unseen]
    return table(["", *names, *(f"mean {key}" for key in MEANS), "p50 [ms] of each", "memory [MiB]"], rows)


def tuned(sets, given):
    """All subjects on the sets with whose queries PML was tuned; its own numbers say what it learned by heart."""
    others = [some for some in sets if some.name not in UNSEEN]
    rows = []
    for name, command in commands(given).items():
        found = [measures.ask(command, some).summary(some.queries)["nDCG@10"] for some in others]
        rows.append([TITLES[name], *(f"{one:.3f}" for one in found)])
        print(" ".join(rows[-1]), file=sys.stderr)
    return table(["nDCG@10", *(some.name for some in others)], rows)


def ablations(sets, given):
    """What is lost without each kind of evidence."""
    from pml_search import catalogs, index_data, ranker
    from pml_search.piece_vectors import table as pieces

    indexes = {some.name: index_data.build(catalogs.read(some.catalog, print), pieces()) for some in sets}
    rows = []
    for title, changes in ABLATIONS.items():
        found = {}
        for some in sets:
            searched = ranker.Ranker(indexes[some.name], replace(ranker.Weights(), **changes))
            each = [measures.quality(_ids(searched, query["query"]), query)["nDCG@10"] for query in some.queries]
            found[some.name] = statistics.fmean(each)
        unseen = statistics.fmean(found[name] for name in UNSEEN if name in found)
        cells = [f"{value:.3f}" for value in (unseen, *found.values())]
        rows.append([title, *cells])
        print(" ".join(rows[-1]), file=sys.stderr)
    return table(["nDCG@10", "mean of the unseen", *(some.name for some in sets)], rows)


def _ids(searched, query):
    found = searched.search(query, measures.DEPTH)
    return [] if found is None else [searched.data.ids[tool] for tool in found.tools]


def calibration(sets, given):
    """What thresholds keep, and how often tools of a predicted probability are needed."""
    from pml_search import catalogs, index_data, ranker
    from pml_search.piece_vectors import table as pieces

    rows, bins, empty = [], [[0, 0.0, 0] for _ in range(10)], []
    kept = {threshold: [] for threshold in measures.THRESHOLDS}
    for some in sets:
        searched = ranker.Ranker(index_data.build(catalogs.read(some.catalog, print), pieces()))
        answers = measures.Answers()
        for query in some.queries:
            found = searched.search(query["query"], measures.DEPTH)
            ids = [] if found is None else [searched.data.ids[tool] for tool in found.tools]
            answers.ids.append(ids)
            answers.scores.append([] if found is None else found.relevance.tolist())
            for tool, chance in zip(ids, [] if found is None else found.probability.tolist(), strict=True):
                cell = bins[min(9, int(chance * 10))]
                cell[0] += 1
                cell[1] += chance
                cell[2] += any(tool in group for group in measures.needed(query))
        found = measures.thresholds(answers, some.queries)
        rows.append([some.name, *(_cell(found[threshold]) for threshold in measures.THRESHOLDS)])
        for threshold in measures.THRESHOLDS:
            kept[threshold].append(found[threshold])
        if some.name in UNSEEN:
            empty += [_best(searched, query) for query in NOTHING_FITS]
    means = [{key: statistics.fmean(one[key] for one in some) for key in some[0]} for some in kept.values()]
    rows.append(["**mean**", *map(_cell, means)])
    none = [f"{statistics.fmean(best < threshold for best in empty):.0%}" for threshold in measures.THRESHOLDS]
    rows.append(["nothing fits: queries that keep nothing", *none])
    header = ["kept, recall, precision at", *map(str, measures.THRESHOLDS)]
    return f"{table(header, rows)}\n\n{_plot(bins)}"


def wishes(sets, given):
    """How many wishes stay empty, where a tool fits and where none does."""
    from pml_search import index_data, ranker
    from pml_search.piece_vectors import table as pieces

    def build(tools):
        return ranker.Ranker(index_data.build(tools, pieces()))

    rows = []
    for kept, without, fitting, (none, some), (first, five) in search_wishes.rows(
        given.data, build, measures.THRESHOLDS
    ):
        cells = (f"{right:.0%} / {wrong:.0%}" for right, wrong in zip(none, some, strict=True))
        title = "kept for the report" if kept else "the model was set with"
        rows.append([f"{title} ({without} / {fitting})", *cells, f"{first:.3f}", f"{five:.3f}"])
    return table(["stay empty: no tool fits / one fits", *map(str, measures.THRESHOLDS), "R@1", "R@5"], rows)


def servers(sets, given):
    """Everyday wishes over the tools of real servers."""
    from pml_search import index_data, ranker
    from pml_search.piece_vectors import table as pieces

    rows = search_servers.rows(lambda tools: ranker.Ranker(index_data.build(tools, pieces())))
    header = ["wishes (one fits / none does)", "R@1", "R@5", "R@5 of several steps", "none fits: stays empty"]
    return table([*header, "one fits: stays empty"], list(rows))


def _cell(found):
    return f"{found['kept']:.1f}, {found['recall']:.2f}, {found['precision']:.2f}"


def _best(searched, query):
    found = searched.search(query, 1)
    return 0.0 if found is None else float(found.relevance[0])


def _plot(bins):
    """Predicted against observed, as text."""
    lines = ["predicted  observed    tools"]
    for number, predicted, right in bins:
        if number:
            bar = "#" * round(40 * right / number)
            lines.append(f"{predicted / number:9.2f} {right / number:9.2f} {number:8d}  {bar}")
    total = sum(cell[0] for cell in bins)
    error = sum(abs(predicted - right) for _, predicted, right in bins) / total
    return "\n".join(["```text", *lines, f"expected calibration error {error:.3f} over {total} tools", "```"])


def speed(sets, given):
    """Building, loading and searching at several sizes, each in a fresh process."""
    header, rows = search_speed.rows([some.catalog for some in sets], given.data)
    return table(header, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--fastmcp-python", metavar="PYTHON")
    parser.add_argument("--bm25s-python", metavar="PYTHON")
    parser.add_argument("--most", type=int, default=0, metavar="N")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--write", type=Path, metavar="FILE")
    given = parser.parse_args()
    sets = [measures.Set.load(given.data / name, given.most) for name in SETS if (given.data / name).is_dir()]
    if not sets:
        parser.error(f"{given.data} has none of the folders {', '.join(SETS)}")
    for name in given.parts.split(","):
        made = {
            "ranking": ranking,
            "tuned": tuned,
            "ablations": ablations,
            "calibration": calibration,
            "wishes": wishes,
            "servers": servers,
            "speed": speed,
        }[name](sets, given)
        print(f"## {name}\n\n{made}\n")
        if given.write:
            _write(given.write, name, made)


def _write(file, name, made):
    text = file.read_text("utf-8")
    between = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    file.write_text(between.sub(lambda found: f"{found[1]}\n{made}\n\n{found[2]}", text), "utf-8")


if __name__ == "__main__":
    main()
