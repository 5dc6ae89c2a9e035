from __future__ import annotations

import pytest

from pml_console.templates import MOST_CHARACTERS, UNKNOWN, Templates, duration, moment, money, pretty


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, UNKNOWN), (0, "0 ms"), (0.34, "340 ms"), (2.44, "2.4 s"), (185, "3 min 5 s"), (7800, "2 h 10 min")],
)
def test_durations_are_read_by_people(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(("usd", "text"), [(None, UNKNOWN), (0, "$0.00"), (0.0125, "$0.0125"), (1234.5, "$1,234.50")])
def test_money(usd, text):
    assert money(usd) == text


def test_a_time_is_in_utc_until_the_script_says_it_in_the_readers_zone():
    assert moment("2026-01-02T03:04:05.6Z") == '<time datetime="2026-01-02T03:04:05.6Z">2026-01-02 03:04:05 UTC</time>'
    assert "<script>" not in moment("<script>")


def test_long_values_are_cut():
    assert len(pretty("x" * 10 * MOST_CHARACTERS)) < MOST_CHARACTERS + 100


def test_what_stands_in_a_page_is_text():
    html = Templates().render("outside.html", problem="<script>alert(1)</script>")
    assert "<script>alert" not in html
    assert "&lt;script&gt;" in html
