from __future__ import annotations

import json
import math
import random
from collections import UserDict

import pytest

from pml_hookspecs import RawObject
from pml_kit.json_line import json_line, well_formed


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": [1, 2.5, None, True, "ü\n"], "b": {"c": "\u2028"}},
        {"of bytes": RawObject(b'{"x": 1,\n "y": "\\n"}')},
        UserDict(a=UserDict(b=1)),
        [None],
        10**40,
        "\x1b\x00",
    ],
)
def test_a_line_means_what_the_value_does(value):
    line = json_line(value)
    assert b"\n" not in line
    assert b"\r" not in line
    assert json.loads(line) == json.loads(json.dumps(value, default=dict))


def test_bytes_that_came_as_json_stay_as_they_are_but_for_line_breaks():
    assert json_line(RawObject(b'{"n": 1.10,\r\n "m": 1e3}')) == b'{"n": 1.10,   "m": 1e3}'


def test_what_no_utf8_can_say_is_written_so_that_it_can_be_read():
    assert json.loads(json_line({"a": "\ud800"}).decode("utf-8")).keys() == {"a"}


def test_numbers_that_are_none_are_written_as_python_does():
    assert json_line({"a": math.nan, "b": None}) == b'{"a":NaN,"b":null}'


def test_what_has_no_form_in_json_is_refused():
    with pytest.raises((TypeError, ValueError)):
        json_line({"a": object()})


ESCAPES = ("\\ud83d", "\\uDE00", "\\\\", "\\n", "u", "d83d", "\\uD83D", "\\ude00", "😀", '\\"', "\\u0041", "x")


def test_halves_of_surrogate_pairs_are_replaced_and_nothing_else():
    chosen = random.Random(7)
    for _ in range(5000):
        text = '"' + "".join(chosen.choices(ESCAPES, k=chosen.randint(0, 12))) + '"'
        whole = json.loads(text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        assert json.loads(well_formed(text.encode())) == whole, text
        if json.loads(text) == whole:
            assert well_formed(text.encode()) == text.encode()


def test_more_halves_than_anybody_writes_are_refused():
    assert well_formed(rb"\ud83d" * 10_000) == rb"\ufffd" * 10_000
    with pytest.raises(ValueError, match="more than 10000 halves"):
        well_formed(rb"\ud83d" * 10_001)
