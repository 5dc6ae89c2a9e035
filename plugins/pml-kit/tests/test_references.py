from __future__ import annotations

import pytest

from pml_kit.references import Reference, parse, path_of, references_in


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ()),
        ("plain", ("plain",)),
        ("{{a}}", (Reference("{{a}}", "a", ()),)),
        ("{{ a.b }}", (Reference("{{ a.b }}", "a", ("b",)),)),
        ('{{a.items[0]["a name"].b}}', (Reference('{{a.items[0]["a name"].b}}', "a", ("items", 0, "a name", "b")),)),
        ("x {{a}}{{b}} y", ("x ", Reference("{{a}}", "a", ()), Reference("{{b}}", "b", ()), " y")),
        (r"\{{a}}", ("{{a}}",)),
        (r"\\{{a}}", ("\\", Reference("{{a}}", "a", ()))),
        (r"\\\{{a}}", ("\\{{a}}",)),
    ],
)
def test_a_text_is_split_into_references_and_the_rest(text, parts):
    assert parse(text) == parts


@pytest.mark.parametrize("text", ["{{", "{{}}", "{{ a b }}", "{{a.}}", "{{a[x]}}", "{{a[1234567890]}}", "{{a"])
def test_what_opens_and_is_none_is_said(text):
    with pytest.raises(ValueError, match=r"^\{\{"):
        parse(f"before {text}")


def test_what_looks_like_references_is_found_in_code():
    assert [one.path for one in references_in("return `{{a.b}}` + '\\{{c[1]}}'")] == [("b",), (1,)]


def test_a_path_is_read_by_itself():
    assert path_of('.items[0]["a name"]') == ("items", 0, "a name")
    assert path_of("") == ()
