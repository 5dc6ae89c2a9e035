from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_clients import jsonc

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


def written_with(filler: str, value: object) -> str:
    """JSON with ``filler`` wherever white space may stand, and a comma after every last member."""
    if isinstance(value, dict):
        members = [f"{json.dumps(k)}{filler}:{filler}{written_with(filler, v)}{filler}," for k, v in value.items()]
        return f"{{{filler}{filler.join(members)}{filler}}}"
    if isinstance(value, list):
        return f"[{filler}{filler.join(f'{written_with(filler, v)},' for v in value)}{filler}]"
    return json.dumps(value)


@given(json_values, st.sampled_from(["// c, }\n", '/* , } " */', "\t", "//\r\n", "/**/\n//*\n", ""]))
def test_comments_and_trailing_commas_change_nothing(value, filler):
    assert jsonc.loads(f"{filler}{written_with(filler, value)}{filler}") == value


def test_what_looks_like_a_comment_or_comma_in_a_text_stays():
    assert jsonc.loads('{"a": "x // y /* z */ ,]", /* c */ "b\\"//": [1, 2, ], }') == {
        "a": "x // y /* z */ ,]",
        'b"//': [1, 2],
    }


def test_a_comma_with_nothing_before_it_is_no_trailing_comma():
    with pytest.raises(jsonc.JsonSyntaxError):
        jsonc.loads("[1,,]")
