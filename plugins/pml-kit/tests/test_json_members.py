from __future__ import annotations

import pytest

from pml_hookspecs import RawObject, RpcError
from pml_kit.json_members import enclosed, join, read_strictly, split, with_meta, without_envelope


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"{}", b'{"_meta":{"a":1}}'),
        (b"{ \n}", b'{"_meta":{"a":1}}'),
        (b'{"x":1E+2}', b'{"x":1E+2,"_meta":{"a":1}}'),
        (b' {"x": 1 } ', b'{"x": 1 ,"_meta":{"a":1}}'),
        (b'{"_meta":{"b":1E+2},"x":1.0}', b'{"_meta":{"b":1E+2,"a":1},"x":1.0}'),
        (b'{"_meta":null,"x":1.0}', b'{"_meta":{"a":1},"x":1.0}'),
        (b'{"_meta":{"a":2}}', b'{"_meta":{"a":1}}'),
        (b'{"x":{"_meta":{"b":1E+2}}}', b'{"x":{"_meta":{"b":1E+2}},"_meta":{"a":1}}'),
    ],
)
def test_meta_is_added_and_the_rest_stays(raw, expected):
    assert with_meta(RawObject(raw), {"a": 1}).raw == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'{"x": 1}', b'{"x": 1}'),
        (b'{"_meta":{ "v": 1E+2 }}', b'{"_meta":{ "v": 1E+2 }}'),
        (b'{"_meta":{"progressToken":1},"x":1E+2}', b'{"x":1E+2}'),
        (b'{"_meta":{"v":1E+2,"progressToken":1}}', b'{"_meta":{"v":1E+2}}'),
        (b'{"_meta":"x"}', b'{"_meta":"x"}'),
    ],
)
def test_the_envelope_is_taken_away_and_the_rest_stays(raw, expected):
    assert without_envelope(RawObject(raw)).raw == expected


def test_objects_are_enclosed_and_joined_as_they_are():
    assert enclosed(b'"a":1', RawObject(b"{ }"), b'"b":2').raw == b'{"a":1,"b":2}'
    assert enclosed(b"", RawObject(b"{}")).raw == b"{}"
    assert join(split(b'{"a" : 1E+2, "\\u00e9":[1, 2]}')).raw == '{"a":1E+2,"é":[1, 2]}'.encode()
    with pytest.raises(ValueError, match="Expected"):
        split(b"[1]")


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b'{"a":1,"a":1}', "the member 'a' stands twice"),
        (b'{"a":[{"b":{"c":1,"\\u0063":2}}]}', "the member 'c' stands twice"),
        (b'{"a":' + b"1" * 5000 + b"}", "Exceeds the limit"),
        (b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}", "nested too deeply"),
        (b"[1]", "must be an object, not list"),
        (b'{"a":', "Expecting value"),
    ],
)
def test_params_that_readers_may_read_differently_are_refused(raw, why):
    with pytest.raises(RpcError, match=why) as caught:
        read_strictly(RawObject(raw))
    assert caught.value.code == -32602


def test_params_are_read_once_and_keep_their_bytes():
    raw = b'{ "n": 1e400, "z": 12345678901234567890123, "s": "\\ud800" }'
    read = read_strictly(RawObject(raw))
    assert read.raw is raw
    assert read["z"] == 12345678901234567890123
