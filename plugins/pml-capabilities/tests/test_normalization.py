from __future__ import annotations

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_capabilities.inputs import merged, schema_of
from pml_capabilities.normalization import identity, normal, one_line, slug
from pml_capabilities.similarity import likeness

SAME = [
    ("python", "x = 1\nreturn x", "x=1 # one\n\nreturn (x)"),
    ("python", "await tools.a.b({'n': 1})", 'await   tools.a.b( {"n": 1} )\n'),
    ("python", "if True:\n  x = 1", "if True:\n        x = 1"),
    ("typescript", "const a = 1;\nreturn a;", "\n  const a = 1;\r\n\r\n  // why\r\n  return a;  \n"),
    ("no-such-language", "a\n", "a"),
]
DIFFERENT = [
    ("python", "return 1", "return 2"),
    ("python", "x = '''\n a'''", "x = '''\na'''"),
    ("python", "not python (", "not python  ("),
    ("typescript", "return `a\n\nb`", "return `a\nb`"),
    ("typescript", "return `\n// a\n`", "return `\n// b\n`"),
    ("typescript", "return 'a\\\n// b'", "return 'a\\\n// c'"),
    ("typescript", "return 'a  b'", "return 'a b'"),
    ("typescript", "x = '//a'", "x = '//b'"),
]


@pytest.mark.parametrize(("language", "one", "other"), SAME)
def test_layout_makes_no_difference(language, one, other):
    assert identity(language, one) == identity(language, other)


@pytest.mark.parametrize(("language", "one", "other"), DIFFERENT)
def test_what_may_mean_something_else_is_something_else(language, one, other):
    assert normal(language, one) != normal(language, other)


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("python", "return 1", "return True"),
        ("python", "return a[0]", "return a[1]"),
        ("python", "return f'{a} 1'", "return f'{a} 2'"),
        ("python", "x = {'a': b}", "x = {'c': b}"),
        ("typescript", "return `a\n\nb`", "return `a\nb`"),
        ("typescript", "return 'a\\\n// b'", "return 'a\\\n// c'"),
        ("typescript", "const x: 'a' | 'b' = c", "const x: 'a' | 'd' = c"),
        ("typescript", "const x = {'a': b}", "const x = {'c': b}"),
        ("typescript", "return a['x']", "return a['y']"),
        ("typescript", "if (a) /'/.test(b); return 'x'", "if (a) /'/.test(b); return 'y'"),
        ("typescript", "return inputs.a + 1", "return inputs.a + 2"),
        ("no-such-language", "1", "2"),
    ],
)
def test_what_is_no_plain_literal_makes_another(language, one, other):
    assert identity(language, one) != identity(language, other)


def test_a_program_takes_no_inputs_and_its_literals_count():
    assert identity("python", "print(1)", program=True) != identity("python", "print(2)", program=True)


def test_language_and_kind_are_part_of_the_identity():
    assert len({identity("a", "1"), identity("b", "1"), identity("a", "1", program=True)}) == 3


@given(st.text(), st.sampled_from(["python", "typescript"]))
def test_any_text_has_an_identity(source, language):
    assert identity(language, source) == identity(language, source)


@pytest.mark.parametrize(
    ("intent", "name"),
    [
        ("Count the open issues!", "count_open_issues"),
        ("Größe der Dateien", "groe_der_dateien"),
        ("the a of", "the_a_of"),
        ("数える", "fallback"),
        ("", "fallback"),
        ("x" * 100, "x" * 40),
        ("word " * 30, "_".join(["word"] * 8)),
    ],
)
def test_names_are_short_and_plain(intent, name):
    assert slug(intent, "fallback") == name


@given(st.text())
def test_any_name_fits_clients(intent):
    name = slug(intent, "capability_1")
    assert 0 < len(name) <= 40
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_")


def test_long_intents_are_cut_to_a_line():
    assert one_line("  a\n b ", 10) == "a b"
    assert one_line("abcdef", 4) == "abc…"


def test_likeness_goes_from_nothing_to_all():
    assert likeness("count open issues", "Counting the open issue") == 1
    assert likeness("数える", "数える") == 1
    assert 0.3 < likeness("count open issues", "count closed issues") < 0.85
    assert likeness("count open issues", "bake bread") == 0
    assert likeness("", "bake bread") == likeness("?!", "bake") == 0


@given(st.text(), st.text())
def test_likeness_is_a_share_and_the_same_both_ways(one, other):
    assert 0 <= likeness(one, other) <= 1
    assert likeness(one, other) == likeness(other, one)


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)
objects = st.dictionaries(st.text(max_size=3), json, max_size=4)


@given(objects, objects)
def test_a_schema_takes_what_it_was_made_of(one, other):
    both = merged(schema_of(one), schema_of(other))
    for schema, values in ((schema_of(one), [one]), (both, [one, other])):
        validator = jsonschema_rs.Draft202012Validator(schema)
        for value in values:
            validator.validate(value)


def test_values_are_not_in_the_schema():
    assert "hunter2" not in str(schema_of({"password": "hunter2", "deep": [{"a": "hunter2"}]}))
