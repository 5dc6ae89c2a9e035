"""Values that are made up for a request: valid, the same for the same request, and of the look of real ones."""

from __future__ import annotations

import json
import re

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_dry_run.argument_echo import ArgumentEcho, echoed
from pml_dry_run.patterns import CannotMatchError, matching
from pml_dry_run.sample import FORMATS, CannotSampleError, sample
from pml_dry_run.validators import Validators

JUDGES = Validators()


def made(schema, arguments=None, seed=b"seed"):
    key = json.dumps(schema, sort_keys=True)
    return sample(schema, ArgumentEcho(seed, arguments or {}), judge=JUDGES.of(key, schema))


def of(**properties):
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


SCALARS = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={
            "format": st.sampled_from([*FORMATS, "color"]),
            "minLength": st.integers(0, 40),
            "maxLength": st.integers(0, 60),
            "pattern": st.sampled_from(["^[A-Z]{2,4}-\\d+$", "^#[0-9a-f]{6}$", "^(red|green)$", "x+y?", "^\\S+@\\S+$"]),
        },
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])},
        optional={"minimum": st.integers(-9, 9), "maximum": st.integers(-9, 99), "multipleOf": st.sampled_from([1, 5])},
    ),
    st.fixed_dictionaries({"enum": st.lists(st.integers(0, 3) | st.text(max_size=3), min_size=1)}),
    st.sampled_from([{}, True, {"type": "boolean"}, {"type": ["string", "null"]}, {"examples": ["a", "b"]}]),
)
NAMES = st.sampled_from(["id", "user_id", "email", "created_at", "path", "title", "count", "url", "x"])


def more(inner):
    objects = st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=4)},
        optional={
            "required": st.lists(NAMES, unique=True, max_size=2),
            "not": st.just({"required": ["never"]}),
            "dependentRequired": st.just({"x": ["id"]}),
            "patternProperties": st.dictionaries(st.just("^x"), inner, max_size=1),
            "if": st.just({"required": ["x"]}),
            "then": st.just({"required": ["id"]}),
        },
    )
    arrays = st.fixed_dictionaries(
        {"type": st.just("array"), "items": inner},
        optional={"minItems": st.integers(0, 4), "maxItems": st.integers(0, 4), "uniqueItems": st.booleans()},
    )
    return objects | arrays | st.builds(lambda parts: {"anyOf": parts}, st.lists(inner, min_size=1, max_size=2))


@given(
    schema=st.recursive(SCALARS, more, max_leaves=8),
    arguments=st.dictionaries(NAMES, st.none() | st.integers(0, 9) | st.text(max_size=5)),
)
def test_what_is_made_up_for_a_request_is_always_valid_and_always_the_same(schema, arguments):
    whole = of(x=schema)
    try:
        value = made(whole, arguments)
    except CannotSampleError:
        return
    assert jsonschema_rs.Draft202012Validator(whole, validate_formats=True).is_valid(value), value
    assert json.dumps(value) == json.dumps(made(json.loads(json.dumps(whole)), dict(arguments)))


def test_most_schemas_get_a_value():
    """What cannot be made up is the exception: of usual schemas, none."""
    usual = of(
        id={"type": "string", "pattern": "^ISSUE-[0-9]{1,6}$"},
        state={"enum": ["open", "closed"]},
        labels={"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 2},
        author=of(email={"type": "string", "format": "email"}, admin={"type": "boolean"}),
        created_at={"type": "string", "format": "date-time"},
        score={"type": "number", "minimum": 0, "maximum": 1},
        parent={"anyOf": [{"type": "null"}, {"$ref": "#/$defs/ref"}]},
    )
    usual["$defs"] = {"ref": of(id={"type": "integer", "minimum": 1})}
    value = made({**usual, "if": {"required": ["id"]}, "then": {"required": ["state"]}})
    assert re.fullmatch("ISSUE-[0-9]{1,6}", value["id"])
    assert len(set(value["labels"])) == 2
    assert "@" in value["author"]["email"]


def test_arguments_come_back_under_their_names_in_any_spelling():
    schema = of(
        userId={"type": "integer"}, inner=of(path={"type": "string"}), items={"type": "array", "items": of(path={})}
    )
    value = made(schema, {"user_id": 7, "path": "/a"})
    assert (value["userId"], value["inner"]["path"]) == (7, "/a")
    assert value["items"][0]["path"] != "/a"
    assert echoed(value, {"user_id": 7, "path": "/a"}) == ["/userId", "/inner/path"]


def test_an_argument_that_does_not_fit_is_not_repeated():
    assert made(of(id={"type": "integer"}), {"id": "seven"})["id"] != "seven"


def test_other_requests_get_other_values():
    schema = of(id={"type": "integer"}, title={"type": "string"}, kind={"enum": [*"abcdefgh"]})
    assert len({json.dumps(made(schema, seed=bytes([n]))) for n in range(20)}) == 20


@given(number=st.integers(0, 2**64 - 1))
@pytest.mark.parametrize(
    "pattern",
    [
        r"^\d{4}-\d{2}$",
        r"^[a-z][a-z0-9_-]*$",
        r"^(a|bc)+?$",
        r"^[^/]+/[^/]+$",
        r"^\w+\s?.$",
        r"colou?r",
        "",
        "é",
        r"[à-é]",
    ],
)
def test_texts_match_their_pattern(pattern, number):
    assert re.search(pattern, matching(pattern, number))


@pytest.mark.parametrize("pattern", ["(", r"(a)\1", r"(?=a)b", "a{500}", "a" * 501, r"^a\b$b"])
def test_patterns_that_are_too_much_are_given_up(pattern):
    with pytest.raises(CannotMatchError):
        matching(pattern, 0)
