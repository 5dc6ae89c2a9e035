from __future__ import annotations

import pytest

from pml_core.members import enclosed, join, split, with_meta, without_envelope
from pml_hookspecs import RawObject


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
