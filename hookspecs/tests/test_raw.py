"""JSON that passes through is neither read nor changed."""

from __future__ import annotations

import json
from types import MappingProxyType

import pytest

from pml_hookspecs import EMPTY, RawObject, encode


def test_bytes_go_out_as_they_came_in_members_order_and_spacing_included() -> None:
    raw = b'{"z": 1, "a":[1e400,NaN], "n": 123456789012345678901234567890, "s": "\\u00e9"}'
    assert RawObject(raw).raw is raw
    assert encode(RawObject(raw)) is raw


def test_bytes_are_not_read_until_somebody_looks() -> None:
    broken = RawObject(b"{not json")
    assert broken.raw == b"{not json"
    with pytest.raises(ValueError, match="Expecting property name"):
        broken["a"]


def test_it_reads_as_a_mapping() -> None:
    raw = RawObject(b'{"a": 1, "b": [2]}')
    assert (raw["a"], list(raw), len(raw), "b" in raw, raw.get("c")) == (1, ["a", "b"], 2, True, None)
    assert raw == {"a": 1, "b": [2]}
    assert raw.value is raw.value


@pytest.mark.parametrize("text", [b"[1]", b"1", b"null", b'"a"'])
def test_what_is_no_object_is_refused_when_read(text: bytes) -> None:
    with pytest.raises(ValueError, match="expected a JSON object, found"):
        len(RawObject(text))


def test_it_can_be_made_of_a_mapping_and_is_encoded_when_its_bytes_are_asked_for() -> None:
    made = RawObject.of({"a": "é"})
    assert made.raw == '{"a":"é"}'.encode()
    assert made.raw is made.raw
    assert RawObject.of(made) is made


def test_what_it_was_made_of_can_change_without_it() -> None:
    source = {"a": 1}
    made = RawObject.of(source)
    source["a"] = 2
    assert made["a"] == 1


def test_its_repr_is_short() -> None:
    assert repr(RawObject(b'{"a":1}')) == 'RawObject({"a":1})'
    assert len(repr(RawObject(b'{"a":"' + b"x" * 10_000 + b'"}'))) < 250


def test_the_empty_object_is_empty() -> None:
    assert EMPTY.raw == b"{}"
    assert not EMPTY


def test_json_is_compact_utf_8_and_takes_mappings_and_sequences_of_any_kind() -> None:
    value = {"a": MappingProxyType({"é": (1, 2)}), "b": RawObject(b'{"c": 3}'), "d": frozenset({4})}
    assert encode(value) == '{"a":{"é":[1,2]},"b":{"c":3},"d":[4]}'.encode()


def test_a_lone_surrogate_is_escaped_instead_of_failing() -> None:
    raw = encode({"a": "\ud800", "b": "é"})
    assert json.loads(raw) == {"a": "\ud800", "b": "é"}


def test_what_json_has_no_form_for_is_refused_by_type() -> None:
    with pytest.raises(TypeError, match="object is not JSON"):
        encode({"a": object()})


def test_of_members_with_one_name_the_last_counts_and_what_was_read_is_what_goes_on() -> None:
    raw = RawObject(b'{"amount": 1000000, "a": [{"b": 1, "b": 2}], "amount": 5}')
    assert raw.value == {"amount": 5, "a": [{"b": 2}]}
    assert raw.raw == b'{"amount":5,"a":[{"b":2}]}'
