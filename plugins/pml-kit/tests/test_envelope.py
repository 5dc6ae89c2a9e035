"""What a line says, and how a line is written."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from pml_hookspecs import EMPTY, RawObject
from pml_kit.json_line import json_line
from pml_kit.jsonrpc import envelope
from pml_kit.jsonrpc.framing import OversizedLine

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
objects = st.dictionaries(st.text(max_size=5), values, max_size=4)


def joined(chunks):
    """One line, and only one."""
    line = b"".join(chunks)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    return line[:-1]


def only(line):
    """The message of a line that needs no lenience."""
    return envelope.decode(line)


@given(st.integers(min_value=1), st.text(min_size=1), objects)
def test_a_request_is_read_as_it_was_written(key, method, params):
    line = joined(envelope.request(key, method, json_line(params)))
    assert json.loads(line) == {"jsonrpc": "2.0", "id": key, "method": method, "params": params}
    found = only(line)
    assert (found.id, found.method, json.loads(bytes(found.params))) == (key, method, params)
    assert (found.result, found.error) == (UNSET, UNSET)


@given(st.integers() | st.text(), objects)
def test_a_result_is_read_as_it_was_written(key, value):
    line = joined(envelope.result(key, value))
    assert json.loads(line) == {"jsonrpc": "2.0", "id": key, "result": value}
    found = only(line)
    assert (found.id, found.method, json.loads(bytes(found.result))) == (key, UNSET, value)


@pytest.mark.parametrize("size", [0, envelope.APART - 100, envelope.APART, 10 * envelope.APART])
def test_size_changes_nothing_but_the_number_of_pieces(size):
    value = {"text": "x" * size}
    assert json.loads(joined(envelope.request(1, "m", json_line(value))))["params"] == value
    assert json.loads(joined(envelope.result("a", value)))["result"] == value
    assert json.loads(joined(envelope.notification("m", value)))["params"] == value


def test_a_notification_without_params_has_none():
    assert joined(envelope.notification("m", EMPTY)) == b'{"jsonrpc":"2.0","method":"m"}'


def test_a_large_body_is_not_copied():
    raw = b'{"text":"' + b"x" * envelope.APART + b'"}'
    assert json_line(RawObject(raw)) is raw
    assert envelope.result(1, RawObject(raw))[1] is raw


def test_what_is_raw_stays_raw_also_further_in():
    inner = RawObject(b'{"b" :  1.0e2}')
    assert json_line({"a": inner}) == b'{"a":{"b" :  1.0e2}}'


def test_line_breaks_between_tokens_become_spaces():
    pretty = RawObject(b'{\r\n  "a": "x\\ny"\n}')
    assert joined(envelope.result(1, pretty)) == b'{"jsonrpc":"2.0","id":1,"result":{    "a": "x\\ny" }}'


@pytest.mark.parametrize(
    "value",
    [
        {"a": MappingProxyType({"b": 1})},
        {"a": 2**70},
        {"a": None, "b": "null"},
        {"a": (1, 2)},
        {"a": math.inf},
        {None: 1},
    ],
    ids=str,
)
def test_what_msgspec_does_not_take_is_written_all_the_same(value):
    assert json.loads(json_line(value)) == json.loads(json.dumps(value, default=dict))


@pytest.mark.parametrize(
    "value", [{"a": "\ud800"}, RawObject(b'{"a":"\\ud800"}'), {"a": RawObject(b'"\\ud800"')}], ids=str
)
def test_half_a_surrogate_pair_is_not_written(value):
    written = json.loads(json_line(value))
    assert written == {"a": "\ufffd"}


def test_not_a_number_is_not_written_as_null():
    assert json_line({"a": math.nan, "b": None}) == b'{"a":NaN,"b":null}'


def test_what_is_not_json_is_refused():
    with pytest.raises(TypeError, match="object is not JSON"):
        json_line({"a": object()})


@pytest.mark.parametrize("where", [0, (1 << 20) - 1, (1 << 20) + 5])
def test_broken_text_is_found_wherever_it_is(where):
    good = b'{"id":1,"result":{"a":"' + b"x" * where + "é".encode() + b'"}}'
    assert only(good).id == 1
    with pytest.raises(UnicodeDecodeError):
        envelope.decode(good.replace("é".encode(), b"\xc3"))
    with pytest.raises(UnicodeDecodeError):
        envelope.decode(good + b" \xc3")


@pytest.mark.parametrize(
    ("value", "key"),
    [
        *((5, 5), ("5", 5), (5.0, 5), ("05", 5)),
        *(("", None), ("x", None), ("-5", None), ("\u0665", None), ("9" * 30, None)),
        *((5.5, None), (math.inf, None), (math.nan, None), (None, None)),
    ],
)
def test_ids_of_ours_are_known_in_disguise(value, key):
    assert envelope.own_id(value) == key


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (b'{"jsonrpc":"2.0","id":5,"result":{', 5),
        (b' { "jsonrpc" : "2.0" , "id" : "5" , "error" : {', 5),
        (b'{"id":5,"jsonrpc":"2.0","result":{', 5),
        (b'{"result":{"id":3},"id":5}x', None),
        (b'{"result":{"id":3,]},"id":5}', 5),
        (b'{"jsonrpc":"2.0","result":{"id":3,]},"id":5,"jsonrpc":"2.0"}', 5),
        (b'{"result":{"id":3}}}', None),
        (b'[INFO] {"jsonrpc":"2.0","id":5,"result":{}}', 5),
        (b'[INFO] {"jsonrpc":"2.0","id":5,"method":"x"}', None),
        (b'{"jsonrpc":"2.0","id":5,"method":"x"', None),
        (b'{"jsonrpc":"2.0","method":"x","id":5', None),
        (b'{"data":{"id":5,"result"', None),
        (b"no message at all", None),
        (b"", None),
        (OversizedLine(b'{"jsonrpc":"2.0","id":5,"result":{"a":"xx', b'xx"}}', 99), 5),
        (OversizedLine(b'{"jsonrpc":"2.0","result":{"a":"xx', b'xx"},"id":5}', 99), 5),
        (OversizedLine(b'{"jsonrpc":"2.0","method":"x","params":{"a":"xx', b'xx"},"id":5}', 99), None),
    ],
)
def test_the_id_of_a_broken_answer_is_recovered(line, key):
    assert envelope.recover_id(line) == key


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_a_known_way(line):
    for read in (envelope.decode, envelope.decode_leniently):
        with suppress(ValueError, RecursionError):
            read(line)
    envelope.recover_id(line)
