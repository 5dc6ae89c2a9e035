"""What two distributions need stands in one place: no run of more than ten equal lines in both.

Indentation and blank lines do not count. The pairs of files that there are today are noted in ``budgets.toml``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Budgets

MOST_EQUAL = 10


def distribution_of(path: str) -> str:
    return path.partition("/src/")[0]


def written_twice(texts: Mapping[str, str]) -> dict[str, int]:
    """Lines in runs that are too long, by pair of files of two distributions: ``one = other``."""
    places: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for path, text in texts.items():
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        for first in range(len(lines) - MOST_EQUAL):
            places[tuple(lines[first : first + MOST_EQUAL + 1])].append((path, first))
    found: dict[str, set[int]] = defaultdict(set)
    for same in places.values():
        for (one, first), (two, _) in combinations(sorted(same), 2):
            if distribution_of(one) != distribution_of(two):
                found[f"{one} = {two}"] |= {*range(first, first + MOST_EQUAL + 1)}
    return {pair: len(lines) for pair, lines in found.items()}


def test_no_new_run_of_equal_lines_in_two_distributions(sources: Sequence[Path], root: Path, budgets: Budgets) -> None:
    table = budgets.tables["written_twice"]
    noted: Mapping[str, int] = table["now"]
    real = written_twice({path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in sources})
    more = {pair: lines for pair, lines in real.items() if lines > noted.get(pair, 0)}
    assert not more, f"{table['what']}: more than noted: {more}. {table['do']}."
    less = {pair: real.get(pair, 0) for pair, lines in noted.items() if real.get(pair, 0) < lines}
    assert not less, f"{table['what']}: well done, write these in budgets.toml, and strike what has 0: {less}"


def test_eleven_equal_lines_are_found_however_they_are_indented_and_parted() -> None:
    lines = [f"line {n}" for n in range(MOST_EQUAL + 1)]
    texts = {
        "plugins/a/src/a/x.py": "\n".join(["before", *lines]),
        "plugins/a/src/a/same.py": "\n".join(lines),
        "plugins/b/src/b/y.py": "\n\n    ".join([*lines, "after"]),
        "plugins/c/src/c/ten.py": "\n".join(lines[1:]),
    }
    beside = "plugins/b/src/b/y.py"
    assert written_twice(texts) == {f"plugins/a/src/a/{name}.py = {beside}": len(lines) for name in ("x", "same")}
