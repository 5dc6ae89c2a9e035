"""What goes into a sandbox is JSON."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pml_hookspecs import RawObject
from pml_sandbox.inputs import InputsError, check_inputs, encode_inputs, surely_larger, to_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text().filter(lambda name: name != "__proto__"), inner),
    max_leaves=8,
)


class Callable:
    def __call__(self) -> None: ...


@pytest.mark.parametrize(
    ("inputs", "key"),
    [
        ({"helper": print}, "helper"),
        ({"fine": 1, "f": lambda: 1}, "f"),
        ({"a": {"b": [0, {"c": len}]}}, "a.b[1].c"),
        ({"o": Callable()}, "o"),
        ({"t": (1, str)}, "t[1]"),
    ],
)
def test_a_function_value_is_a_security_violation_that_names_its_key(inputs: dict[str, object], key: str) -> None:
    with pytest.raises(InputsError) as refused:
        check_inputs(inputs)
    failure = refused.value.failure
    assert failure.code == "code.function_in_context"
    assert failure.message == (
        f"Security violation detected: FUNCTION_IN_CONTEXT - Context key '{key}' contains function value"
    )
    assert failure.details == {"name": "SecurityError", "key": key}


CYCLE: list[object] = []
CYCLE.append({"again": CYCLE})
DEEP: list[object] = []
for _ in range(200):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({"n": math.nan}, "'n': nan is no number"),
        ({"n": [math.inf]}, "'n[0]': inf is no number"),
        ({"c": CYCLE}, "'c[0].again': the value contains itself"),
        ({"d": DEEP}, "more than 100 levels"),
        ({"__proto__": {}}, "'__proto__': a member may not be named"),
        ({"a": [{"__proto__": 1}]}, "'a[0].__proto__'"),
        ({"a": RawObject(b'{"b":{"__proto__":1}}')}, "'a.b.__proto__'"),
        ({"b": b"x"}, "'b': bytes is not a JSON value"),
        ({"s": {1}}, "'s': set is not a JSON value"),
        ({"k": {1: 2}}, "'k': names of members must be strings"),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(inputs: dict[str, object], says: str) -> None:
    with pytest.raises(InputsError) as refused:
        check_inputs(inputs)
    assert refused.value.failure.code == "code.invalid_inputs"
    assert says in refused.value.failure.message


@given(st.dictionaries(st.text().filter(lambda name: name != "__proto__"), VALUES))
@settings(max_examples=40, deadline=None)
def test_every_json_value_passes_and_comes_out_as_it_was(inputs: dict[str, object]) -> None:
    text = encode_inputs(inputs, 1 << 24)
    assert b"\n" not in text
    assert json.loads(text) == inputs


def test_the_same_value_may_stand_in_two_places() -> None:
    shared = {"a": [1]}
    assert json.loads(encode_inputs({"x": shared, "y": [shared, shared]}, 1000)) == {"x": shared, "y": [shared, shared]}


def test_inputs_that_are_too_large_are_refused() -> None:
    with pytest.raises(InputsError, match="at most 100 fit"):
        encode_inputs({"a": "x" * 200}, 100)


def test_lone_surrogates_come_through_as_escapes() -> None:
    assert json.loads(to_json("\ud800")) == "\ud800"


@given(VALUES)
@settings(max_examples=200)
def test_what_fits_is_never_said_to_be_too_large(value):
    assert not surely_larger(value, len(to_json(value)))


def test_what_is_far_too_large_is_seen_at_a_glance():
    round_and_round = ["x" * 10]
    round_and_round.append(round_and_round)
    for value in ("x" * 2000, [1] * 1000, {"a": [{"b": "x" * 900}], "c": "x" * 900}, round_and_round):
        assert surely_larger(value, 1000)
    assert not surely_larger([[]] * 400, 1000)
    # Not looked at any further.
    assert not surely_larger([[1, 2, 3]] * 100_000, 5_000_000)
