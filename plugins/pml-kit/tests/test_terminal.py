from __future__ import annotations

import sys
import unicodedata
from pathlib import Path

import pytest

from pml_kit.terminal import print_columns, print_json, print_table, printable

OBEYED = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Categories of characters that control a terminal, turn the direction of reading, or show nothing."""


def test_nothing_that_a_terminal_obeys_or_nobody_sees_comes_through():
    text = "".join(map(chr, range(sys.maxunicode + 1)))
    assert {char for char in printable(text) if unicodedata.category(char) in OBEYED} == set()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\u202eb", "\\x1b[2J\\u202eb"),
        ("one\ntwo\tthree\r", "one\\ntwo\\tthree\\r"),
        ("a\u200bb\u2028c\x00", "a\\u200bb\\u2028c\\x00"),
        ("Zürich 東京 🙂", "Zürich 東京 🙂"),
        ("\ud800", "\\ud800"),
        ("", ""),
    ],
)
def test_what_is_hidden_is_shown_by_its_escape(text, shown):
    assert printable(text) == shown


def test_what_is_named_stays():
    assert printable("one\ntwo\t\x07", keep="\n\t") == "one\ntwo\t\\x07"


@pytest.fixture
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")


@pytest.mark.usefixtures("narrow")
def test_a_table_obeys_no_cell_and_cuts_no_column_that_is_to_stay_whole(capsys):
    print_table(("id", "what"), [("0123456789" * 2, "[red]x[/red]\x1b[2J")], whole=["id"])
    told = capsys.readouterr().out
    assert "0123456789" * 2 in told
    assert "[red]x" in told
    assert "\x1b" not in told
    assert "…" not in told


def test_a_table_may_have_no_rows(capsys):
    print_table(("id", "what"), [], whole=["id"])
    assert "what" in capsys.readouterr().out


def test_columns_are_as_wide_as_their_widest_cell_and_the_last_one_runs_on(capsys):
    print_columns([("a", "one", ""), ("long", "b", "and so on")], ("X", "Y", "Z"))
    assert capsys.readouterr().out == "X     Y    Z\na     one\nlong  b    and so on\n"
    print_columns([])
    assert capsys.readouterr().out == ""


def test_json_is_one_document_in_the_letters_of_everybody(capsys):
    print_json({"who": "Zoë", "where": Path("/x")})
    assert capsys.readouterr().out == '{\n  "who": "Zoë",\n  "where": "/x"\n}\n'
