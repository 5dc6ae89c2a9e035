"""Texts say rules, not their numbers in a list that the reader does not have; names are nouns of the field."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Budgets

NUMBER = re.compile(r"\b(?!(?:AGPL|BSD|CVE|GPL|ISO|LGPL|MPL|PEP|RFC|SEP|SHA|SSH|UTF)-)[A-Z]{2,6}-\d+\b")
"""Numbers of rules, but not those of standards and licences, which are found by their names."""
TEXTS = {".js", ".md", ".sh", ".toml", ".ts"}
"""Ends of names of files that are read as modules are."""
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
ERRORS = ("Error", "Exception")
"""Ends of names that say what is wrong, which may be a participle: ``ConnectionRefusedError``."""
PARTICIPLE = re.compile(r"[a-z]{2,}(?:ed|ing)")
NOUNS = {
    *(
        "embedding",
        "feed",
        "finding",
        "greeting",
        "housekeeping",
        "learning",
        "listing",
        "matching",
        "paging",
        "planning",
    ),
    *("pricing", "pruning", "ranking", "recording", "sampling", "seed", "setting", "spelling", "string"),
    *("applied", "counting", "framing", "naming", "nesting", "tracing"),
}
"""Words of the field that only look like participles; ``FiltersApplied`` is a part of an answer over HTTP."""
NO_NAMES = {
    *("begun", "bound", "done", "drawn", "forgotten", "foreseen", "found", "given", "gone", "held", "hidden", "kept"),
    *("known", "left", "lost", "made", "meant", "open", "said", "seen", "sent", "shown", "sought", "spent", "taken"),
    *("thought", "told", "unwritten", "worn", "written"),
    *("all", "else", "elsewhere", "everybody", "everyone", "everything", "his", "how", "mine", "nobody", "one", "ones"),
    *("other", "others", "ours", "own", "some", "somebody", "such", "theirs", "what", "when", "where", "which", "who"),
    *("whose", "yours"),
    *("ailment", "foreseer", "ladder", "looker", "lookout", "remains", "vault", "witness"),
}
"""Participles without an ending of their own, pronouns, and metaphors that were here once."""
HERE = "tests/architecture/test_words.py"


def test_nothing_gives_a_rule_by_its_number(root: Path) -> None:
    """Neither comments and docstrings nor marks of tests; no data looks like it either, and so nothing is left out."""
    found = {}
    for path in _files(root):
        place = path.relative_to(root).as_posix()
        if place != HERE and (said := {*NUMBER.findall(path.read_text(encoding="utf-8"))}):
            found[place] = sorted(said)
    assert found == {}, "Say the rule where it holds"


def test_numbers_of_rules_are_found_and_names_of_standards_are_not() -> None:
    said = '"""Of XYZ-1; UTF-8, RFC-9110."""\nX = 1  # see XYZ-3\n\n@mark("XYZ-5")\ndef f():\n'
    assert NUMBER.findall(said) == ["XYZ-1", "XYZ-3", "XYZ-5"]


def is_no_name(name: str) -> bool:
    """Whether the last word of a class's or a module's name says nothing of what it is."""
    last = [word.lower() for word in WORD.findall(name)][-1:]
    if not last or name.endswith(ERRORS) or last[0] in NOUNS:
        return False
    return last[0] in NO_NAMES or PARTICIPLE.fullmatch(last[0]) is not None


@pytest.mark.parametrize("name", ["Told", "_Kept", "Joining", "telling", "Theirs", "PlanLooker", "others"])
def test_participles_pronouns_and_metaphors_are_no_names(name: str) -> None:
    assert is_no_name(name)


@pytest.mark.parametrize(
    "name", ["Settings", "LoginRefusedError", "_framing", "RequestQueue", "OAuth2", "Feed", "__init__"]
)
def test_nouns_are_names(name: str) -> None:
    assert not is_no_name(name)


def test_classes_and_modules_have_names(sources: Sequence[Path], root: Path, budgets: Budgets) -> None:
    found: Counter[str] = Counter()
    names = []
    for path in sources:
        classes = [node.name for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ClassDef)]
        place = path.relative_to(root).as_posix()
        wrong = [name for name in (path.stem, *classes) if is_no_name(name)]
        names += [f"{place} {name}" for name in wrong]
        found[place.partition("/src/")[0]] += len(wrong)
    table = budgets.tables["no_names"]
    now: Mapping[str, int] = table["now"]
    more = {place: count for place, count in found.items() if count > now.get(place, 0)}
    shown = [name for name in names if name.partition("/src/")[0] in more]
    assert not more, f"{table['what']}: more than noted in {more}. {table['do']}. They are {shown}"
    less = {place: found[place] for place in now if found[place] < now[place] - table["room"]}
    assert not less, f"{table['what']}: well done, write these under [no_names.now] in budgets.toml: {less}"


def _files(path: Path) -> Iterator[Path]:
    """Every text of the tree but for what is hidden or was made."""
    for one in path.iterdir():
        if one.name.startswith(".") or one.name in ("__pycache__", "build", "dist", "node_modules"):
            continue
        if one.is_dir():
            yield from _files(one)
        elif one.suffix in {".py", *TEXTS}:
            yield one
