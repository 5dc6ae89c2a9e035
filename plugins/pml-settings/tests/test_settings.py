from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest
from jsonschema import Draft202012Validator

from pml_hookspecs import setting
from pml_kit.errors import OperatorError
from pml_settings.config import GatewaySettings, ServerSettings, Source, load
from pml_settings.validation import json_schema, merge, model_of, source_of, validate_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Of a plugin."""

    limit: int = setting(10, "Most tools [tools].", ge=1, le=99)
    kind: Literal["a", "b"] = setting("a", "Which.")
    names: tuple[str, ...] = setting((), "Some names.")
    table: dict[str, int] = setting(dict, "A table.")
    ratio: float = setting(0.5, "A share.", ge=0, le=1)


def test_a_model_has_the_dataclass_fields_defaults_bounds_and_descriptions():
    schema = model_of(Settings).model_json_schema()
    assert schema["properties"]["limit"] == {
        "default": 10,
        "description": "Most tools [tools].",
        "maximum": 99,
        "minimum": 1,
        "title": "Limit",
        "type": "integer",
    }
    assert model_of(Settings)().model_dump() == {"limit": 10, "kind": "a", "names": (), "table": {}, "ratio": 0.5}


@pytest.mark.parametrize("settings_type", [GatewaySettings, ServerSettings])
def test_the_models_defaults_are_the_dataclasses(settings_type):
    made = model_of(settings_type)()
    assert settings_type(**{name: getattr(made, name) for name in type(made).model_fields}) == settings_type()


def test_two_plugins_defaults_do_not_share_a_table():
    one, other = validate_table(Settings, {"limit": 1}, "p", ()), validate_table(Settings, {"limit": 1}, "p", ())
    one.table["x"] = 1
    assert other.table == {}


def test_a_good_table_becomes_the_settings():
    given = {"limit": 99, "kind": "b", "names": ["x"], "table": {"y": 1}, "ratio": 1}
    assert validate_table(Settings, given, "p", ()) == Settings(
        limit=99, kind="b", names=("x",), table={"y": 1}, ratio=1.0
    )


def test_lists_and_tables_may_come_as_json_text():
    assert validate_table(Settings, {"names": '["x"]', "table": '{"y": 1}'}, "p", ()) == Settings(
        names=("x",), table={"y": 1}
    )


@pytest.mark.parametrize(
    ("table", "part"),
    [
        ({"limit": 100}, "plugins.p.limit (file): Input should be less than or equal to 99"),
        ({"limit": 0}, "plugins.p.limit (file): Input should be greater than or equal to 1"),
        ({"limit": "many"}, "plugins.p.limit (file)"),
        ({"kind": "c"}, "plugins.p.kind (file): Input should be 'a' or 'b'"),
        ({"names": "[x"}, "plugins.p.names (file)"),
        ({"names": ["x", 1]}, "plugins.p.names.1 (file)"),
        ({"lmit": 1}, "plugins.p.lmit (file): unknown key; did you mean 'limit'?"),
        ({"zzz": 1}, "plugins.p.zzz (file): unknown key; known: kind, limit, names, ratio, table"),
    ],
)
def test_a_mistake_in_a_table_is_named_with_its_source(table, part):
    sources = [Source("other", {"plugins": {"q": {}}}), Source("file", {"plugins": {"p": table}})]
    with pytest.raises(OperatorError) as caught:
        validate_table(Settings, table, "p", sources)
    assert part in str(caught.value)


def test_messages_never_repeat_a_value_because_it_may_be_a_secret():
    with pytest.raises(OperatorError) as caught:
        merge([Source("--set", {"servers": {"git": {"command": "x", "env": {"TOKEN": ["hunter2"]}}}})], [])
    assert "servers.git.env.TOKEN (--set)" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_the_source_of_a_path_is_the_first_that_says_it_or_what_is_above_it():
    sources = [
        Source("one", {"gateway": {}}),
        Source("two", {"gateway": {"intent": "x"}, "servers": {"a": {"args": [1]}}}),
    ]
    assert source_of(sources, ["gateway", "intent"]) == "two"
    assert source_of(sources, ["gateway", "other"]) == "one"
    assert source_of(sources, ["servers", "a", "args", "0"]) == "two"
    assert source_of(sources, ["plugins"]) == "default"


GOOD = {
    "gateway": {"tools_exposure": "hybrid", "tracers": ["log"], "executors": {"workflow": "dag"}, "call_timeout_s": 5},
    "servers": {"git": {"command": "x", "args": ["y"], "env": {"A": "b"}, "timeout_s": None, "max_line_bytes": 5}},
    "plugins": {"p": {"limit": 5, "table": {"x": 1}}},
}


def test_the_schema_is_valid_and_accepts_what_loading_accepts():
    schema = json_schema({"p": Settings})
    Draft202012Validator.check_schema(schema)
    check = Draft202012Validator(schema)
    check.validate(GOOD)
    check.validate({})
    merge([], [Source("file", GOOD)])


def test_the_schema_has_tables_at_the_top_that_are_a_setting_of_a_plugin():
    sections = {"short": ("p", "table"), "odd": ("p", "nothing"), "others": ("q", "table")}
    check = Draft202012Validator(json_schema({"p": Settings}, sections))
    check.validate({"short": {"x": 1}, "plugins": {"p": {"limit": 5}}})
    for bad in ({"short": 1}, {"odd": {}}, {"others": {}}):
        assert not check.is_valid(bad)


@pytest.mark.parametrize(
    "bad",
    [
        {"gatway": {}},
        {"gateway": {"tols_exposure": "x"}},
        {"gateway": {"record_bytes": 1}},
        {"gateway": {"execution_mode": "x"}},
        {"servers": {"git": {"command": 5}}},
        {"plugins": {"p": {"limit": 0}}},
        {"plugins": {"p": {"lmit": 1}}},
    ],
)
def test_the_schema_refuses_what_loading_refuses(bad):
    assert not Draft202012Validator(json_schema({"p": Settings})).is_valid(bad)


def test_mistakes_are_told_in_the_words_of_the_file_and_not_of_python(place):
    place.write("pml.toml", "[servers.a]\ncommand = 'x'\nargs = 'y'")
    with pytest.raises(OperatorError) as caught:
        load()
    assert "servers.a.args" in str(caught.value)
    assert "should be a list" in str(caught.value)
