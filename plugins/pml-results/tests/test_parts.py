"""Parts of stored values, and previews of them: no gateway, no store."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_hookspecs import InvalidArguments
from pml_kit.mcp.tokens import estimate
from pml_results import levels
from pml_results.levels import whole
from pml_results.outline import printed, text_outline, value_outline
from pml_results.parts import at_path, lines_of, page_of, searched, select_in
from pml_results.shape import shape_of

ROWS = {"rows": [{"id": i, "name": f"n{i}", **({"x": 1.5} if i % 2 else {})} for i in range(2000)], "total": 2000}
RAW = json.dumps(ROWS).encode()
ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=40,
)


def test_a_shape_says_types_counts_and_what_is_not_always_there():
    assert str(shape_of(RAW)) == "{rows: {id: int, name: str, x?: float}[2000], total: int}"
    assert str(shape_of(b'[1, "a", null, [], [[]]]')) == "(int | null | str | [0][0 to 1])[5]"
    assert str(shape_of(b"{}")) == "{}"


@given(ANY)
def test_every_value_has_a_shape_and_an_outline_within_its_budget(value):
    raw = json.dumps(value).encode()
    assert str(shape_of(raw))
    assert len(value_outline(raw, 50)) <= 50 * 6 + 40


@given(ANY)
def test_what_is_printed_on_lines_is_the_same_value(value):
    assert json.loads(printed(json.dumps(value).encode())) == value


@pytest.mark.parametrize("budget", [30, 100, 1000])
def test_an_outline_is_about_as_long_as_it_may_be(budget):
    assert estimate(value_outline(RAW, budget)) <= 2 * budget
    assert estimate(text_outline("\n".join(f"line number {i}" for i in range(5000)), budget)) <= 2 * budget


def test_an_outline_of_a_text_has_its_beginning_and_its_end():
    shown = text_outline("\n".join(f"line {i}" for i in range(1000)), 60)
    assert shown.startswith("line 0\n")
    assert shown.endswith("line 999")
    assert "lines ..." in shown


def test_one_endless_line_is_cut_in_its_middle():
    shown = text_outline("a" * 50_000 + "z", 60)
    assert shown.endswith("z")
    assert "characters" in shown
    assert len(shown) < 300


@pytest.mark.parametrize(
    ("path", "found"),
    [("", ROWS), ("total", 2000), ("rows[3].name", "n3"), (".rows[1999]", ROWS["rows"][1999]), ('["total"]', 2000)],
)
def test_a_path_finds_what_python_finds(path, found):
    assert whole(at_path(RAW, path)) == found


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("nope", "an object with rows, total"),
        ("rows[2000]", "an array of 2,000"),
        ("rows[0].id.more", "is a int"),
        ("rows[-1]", "cannot be read"),
        ("rows[0", "cannot be read"),
        ("a b", "cannot be read"),
    ],
)
def test_a_path_that_leads_nowhere_says_how_far_it_led(path, said):
    with pytest.raises(InvalidArguments, match=said.replace("[", r"\[")):
        at_path(RAW, path)


def test_an_expression_selects_what_jmespath_says():
    assert select_in(RAW, "rows[?id > `1997`].name") == ["n1998", "n1999"]
    assert select_in(RAW, "nope") is None


@pytest.mark.parametrize(
    "expression", ["rows[", "rows[?id >", "x" * 3000, "nope(@)", "(" * 500, "sum(rows)", 'abs(`"a"`)']
)
def test_an_expression_that_fails_is_said_in_one_line(expression):
    with pytest.raises(InvalidArguments, match="select") as raised:
        select_in(RAW, expression)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("asked", "shown", "first", "last"),
    [
        ("2-3", "b\nc", 2, 3),
        ("4-", "d\ne", 4, 5),
        ("-2", "d\ne", 4, 5),
        ("5", "e", 5, 5),
        ("4-99", "d\ne", 4, 5),
        ("-99", "a\nb\nc\nd\ne", 1, 5),
    ],
)
def test_lines_are_counted_from_one(asked, shown, first, last):
    assert lines_of("a\nb\nc\nd\ne", asked) == (shown, first, last, 5)


@pytest.mark.parametrize("asked", ["", "x", "0", "6", "3-2", "1-2-3", "-", "9" * 40])
def test_lines_that_there_are_not_are_refused(asked):
    with pytest.raises(InvalidArguments, match="lines"):
        lines_of("a\nb\nc\nd\ne", asked)


def test_a_search_finds_lines_with_all_words_in_any_case():
    text = "\n".join(["Red apple", "green apple", "apple that is RED", *["filler"] * 100])
    assert searched(text, "RED Apple") == ([(1, "Red apple"), (3, "apple that is RED")], 2)
    hits, count = searched(text, "filler")
    assert (len(hits), count) == (50, 100)


@given(st.text(max_size=300), st.integers(1, 40))
def test_pages_are_the_whole_text_once(text, size):
    pages = page_of(text, 1, size)[1]
    assert "".join(page_of(text, n, size)[0] for n in range(1, pages + 1)) == text
    for n in (0, pages + 1):
        with pytest.raises(InvalidArguments, match="page"):
            page_of(text, n, size)


@given(
    st.lists(st.sampled_from(["a", '"', "\\", "\n", " ", "é", "😀", "\u2028", "u", "0", "f", '{"a": 1}'])),
    st.booleans(),
)
def test_a_long_text_that_is_read_in_pieces_is_the_same(parts, ascii):
    text = "".join(parts)
    (raw,) = msgspec.json.decode(f"[ {json.dumps(text, ensure_ascii=ascii)} ]".encode(), type=list[msgspec.Raw])
    with pytest.MonkeyPatch.context() as patched:
        for name, size in (("LONG", 1), ("PIECE", 23), ("LOOK", 20)):
            patched.setattr(levels, name, size)
        assert levels.long_text(raw) == text


@pytest.mark.parametrize("end", ["\\", "\\u12", '"', "\x01"])
def test_a_long_text_that_is_broken_is_refused(end):
    raw = msgspec.Raw(b'"' + b"a" * (levels.LONG + 100) + end.encode() + b'"')
    with pytest.raises(ValueError, match=r"\S"):
        levels.long_text(raw)
