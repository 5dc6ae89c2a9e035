"""Comments and docstrings say a rule, not its number in a list that the reader does not have."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

NUMBER = re.compile(r"\b(?!(?:AGPL|BSD|CVE|GPL|ISO|LGPL|MPL|PEP|RFC|SEP|SHA|SSH|UTF)-)[A-Z]{2,6}-\d+\b")
"""Numbers of rules, but not those of standards and licences, which are found by their names."""
TEXTS = {".js", ".md", ".sh", ".toml", ".ts"}
"""Ends of names of files that are read whole; of Python's, comments and docstrings are."""
BEGINS = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
"""What stands before a line of code."""


def numbers(text: str) -> Iterator[str]:
    """Numbers of rules in what a module in Python tells its readers: comments and docstrings."""
    if not NUMBER.search(text):
        return
    before = tokenize.NEWLINE
    for one in tokenize.generate_tokens(io.StringIO(text).readline):
        if one.type == tokenize.COMMENT or (one.type == tokenize.STRING and before in BEGINS):
            yield from NUMBER.findall(one.string)
        if one.type not in (tokenize.COMMENT, tokenize.NL):
            before = one.type


def test_no_comment_and_no_docstring_gives_a_rule_by_its_number(root: Path) -> None:
    found = {}
    for path in _files(root):
        text = path.read_text(encoding="utf-8")
        if said := {*(numbers(text) if path.suffix == ".py" else NUMBER.findall(text))}:
            found[path.relative_to(root).as_posix()] = sorted(said)
    assert found == {}, "Say the rule where it holds"


def test_numbers_are_found_where_readers_meet_them() -> None:
    said = '"""Of XYZ-1; UTF-8, RFC-9110."""\nX = "XYZ-2"  # see XYZ-3\n"""And XYZ-4."""\n\n@mark("XYZ-5")\ndef f():\n'
    assert sorted({*numbers(f'{said}    """As XYZ-6."""\n')}) == ["XYZ-1", "XYZ-3", "XYZ-4", "XYZ-6"]


def _files(path: Path) -> Iterator[Path]:
    """Every text of the tree but for what is hidden or was made."""
    for one in path.iterdir():
        if one.name.startswith(".") or one.name in ("__pycache__", "build", "dist", "node_modules"):
            continue
        if one.is_dir():
            yield from _files(one)
        elif one.suffix in {".py", *TEXTS}:
            yield one
