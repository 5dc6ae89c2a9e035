from __future__ import annotations

import subprocess
import sys
from types import MappingProxyType

import pytest
from checked_calls import DRAFTS, READ, Next, call, check, problems, services

from pml_argument_validation import plugin
from pml_argument_validation.plugin import ArgumentValidation
from pml_hookspecs import EMPTY, CodeRun, Phase, RawObject, ToolCall, encode
from pml_testing.fakes import FakeRun, FakeServices, entry, outcome
from pml_testing.work import counted
from pml_testing.wrapper import WrapperContract

pytestmark = pytest.mark.anyio


class TestLettingServersJudgeKeepsTheContract(WrapperContract):
    @pytest.fixture
    def wrapper(self):
        return ArgumentValidation(services(refuse=()))

    @pytest.fixture
    def tasks(self):
        return [call(path="a"), call(path=1), call(), ToolCall(id="t", tool="fs:read", arguments=RawObject(b"[]"))]


class TestArgumentValidationKeepsTheContract(WrapperContract):
    @pytest.fixture
    def wrapper(self):
        return ArgumentValidation(services())

    @pytest.fixture
    def tasks(self):
        return [call(path="a"), call(path=1), call(), ToolCall(id="t", tool="fs:read", arguments=RawObject(b"[]"))]


def test_the_plugin_contributes_one_wrapper_that_sits_outside_the_dry_run():
    (wrapper,) = plugin.pml_wrap_executor(FakeServices())  # without any settings
    assert wrapper.phase is Phase.VALIDATE


def test_loading_the_plugin_imports_no_validator():
    code = "import pml_argument_validation.plugin, sys; sys.exit('jsonschema_rs' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "a"},
        {"path": "a", "head": 3, "mode": "w", "at": {"x": 1}, "tags": ["a"], "filter": None, "kind": "file"},
        RawObject(b'{"path":"a"}'),
        MappingProxyType({"path": "a", "at": MappingProxyType({"x": 1})}),
    ],
    ids=["plain", "everything", "undecoded", "another mapping"],
)
async def test_good_arguments_pass_untouched(arguments):
    following, task = Next(), ToolCall(id="t", tool="fs:read", arguments=arguments)
    await ArgumentValidation(services())(task, FakeRun(), following)
    assert following.calls[0] is task


async def test_a_refusal_tells_everything_and_nothing_runs():
    failure = await check(call(pth="a", head="3", mode="x"))
    assert failure.code == "arguments.invalid"
    assert failure.message == (
        "Not run: the arguments do not fit fs:read.\n"
        '- $.head: must be an integer, not the string "3"\n'
        '- $.mode: must be one of "r", "w"; not "x"\n'
        "- $.pth: unknown; did you mean 'path'?\n"
        "- $.path: is missing; expected a string\n"
        'Parameters: path: string, head?: integer = 10, mode?: "r" | "w", at?: object, tags?: string[], '
        'filter?: object | string | null, kind?: "file"'
    )


@pytest.mark.parametrize(
    ("arguments", "path", "says"),
    [
        ({}, "$.path", "is missing; expected a string"),
        ({"path": None}, "$.path", "must be a string, not null"),
        ({"path": ["a"]}, "$.path", "must be a string, not an array"),
        ({"path": {}}, "$.path", "must be a string, not an object"),
        ({"path": True}, "$.path", "must be a string, not true"),
        ({"path": ""}, "$.path", '"" is shorter than 1 character'),
        ({"path": "a", "head": 0}, "$.head", "0 is less than the minimum of 1"),
        ({"path": "a", "kind": "dir"}, "$.kind", 'must be "file", not "dir"'),
        ({"path": "a", "tags": ["a", "B"]}, "$.tags[1]", '"B" does not match "^[a-z]+$"'),
        ({"path": "a", "tags": ["a"] * 4}, "$.tags", "has more than 3 items"),
        ({"path": "a", "at": {"x": "1"}}, "$.at.x", 'must be an integer, not the string "1"'),
        ({"path": "a", "at": {}}, "$.at.x", "is missing; expected an integer"),
        ({"path": "a", "at": {"x": 1, "z": 2}}, "$.at.z", "unknown; not given yet: y"),
        ({"path": "a", "filter": 3}, "$.filter", "must be an object or a string or null, not 3"),
        ({"path": "a", "filter": {"x": "1"}}, "$.filter.x", "must be an integer"),
        ({"path": "a", "a b": 1}, '$["a b"]', "unknown"),
    ],
)
async def test_each_problem_has_a_place_and_says_what_was_expected(arguments, path, says):
    told = await problems(call(**arguments))
    assert list(told) == [path]
    assert says in told[path]


async def test_missing_arguments_are_an_empty_object():
    assert list(await problems(ToolCall(id="t", tool="fs:read"))) == ["$.path"]
    assert await check(ToolCall(id="t", tool="fs:read"), schema={"type": "object"}) is None
    assert await check(ToolCall(id="t", tool="fs:read", arguments=EMPTY), schema={"type": "object"}) is None


@pytest.mark.parametrize("arguments", [{}, {"anything": [1, None]}])
async def test_an_empty_schema_accepts_everything(arguments):
    # fakes.entry puts the default in place of an empty schema
    bare = services(entry("fs:read"))
    bare.catalog.get("fs:read").definition["inputSchema"] = {}
    following = Next()
    await ArgumentValidation(bare)(call(**arguments), FakeRun(), following)
    assert following.calls


@pytest.mark.parametrize("schema", [None, True, "object", []])
async def test_a_tool_without_a_usable_schema_is_called_unchecked(schema):
    bare = services(entry("fs:read"))
    bare.catalog.get("fs:read").definition["inputSchema"] = schema
    following = Next()
    await ArgumentValidation(bare)(call(x=1), FakeRun(), following)
    assert following.calls


async def test_a_tool_that_is_not_in_the_catalog_is_someone_elses_business():
    assert await check(call("fs:other")) is None


async def test_other_tasks_pass():
    assert await check(CodeRun(id="t", language="python", source="")) is None


async def test_the_gateways_own_tools_are_checked_too():
    # Those of the gateway itself, and those of servers that only run in a plugin.
    for tool in ("pml:search_tools", "agents:reviewer"):
        own = services(entry(tool, input_schema=READ), refuse=())
        ended = await ArgumentValidation(own)(call(tool), FakeRun(), Next())
        assert ended.failure.code == "arguments.invalid"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "file"},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
        {"$ref": "#/$defs/missing"},
        {"$schema": "https://example.com/my-dialect"},
        {"properties": {"a": {"$ref": "other.json"}}},
    ],
)
async def test_a_schema_that_cannot_be_used_is_logged_once_and_the_call_passes(schema):
    given = services(entry("fs:read", input_schema=schema))
    wrapper, following = ArgumentValidation(given), Next()
    for _ in range(3):
        await wrapper(call(a=1), FakeRun(), following)
    assert len(following.calls) == 3
    ((level, _, fields),) = given.log.lines
    assert (level, fields["tool"]) == ("warning", "fs:read")
    assert "\n" not in fields["problem"]


@pytest.mark.parametrize("scheme", ["file", "http"])
async def test_no_schema_makes_the_gateway_read_a_file_or_the_network(scheme, tmp_path):
    import http.server
    import threading

    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"type":"integer"}')

        def log_message(self, *_args):
            pass

    schema_file = tmp_path / "schema.json"
    schema_file.write_text('{"type":"integer"}')
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            web = f"http://127.0.0.1:{server.server_port}/schema.json"
            where = schema_file.as_uri() if scheme == "file" else web
            assert await check(call(a="text"), schema={"properties": {"a": {"$ref": where}}}) is None
        finally:
            server.shutdown()
            thread.join()
    assert asked == []


@pytest.mark.parametrize(
    ("schema", "good"),
    [
        (
            {
                "$schema": f"{DRAFTS}-04/schema#",
                "properties": {"n": {"minimum": 1, "exclusiveMinimum": True}},
            },
            2,
        ),
        ({"$schema": f"{DRAFTS}-07/schema#", "properties": {"n": {"items": [{"const": 1}]}}}, [1]),
        ({"properties": {"n": {"prefixItems": [{"const": 1}]}}}, [1]),
    ],
    ids=["draft 4", "draft 7", "draft 2020-12 without saying so"],
)
async def test_the_schema_is_read_in_its_own_draft(schema, good):
    assert await check(call(n=good), schema=schema) is None
    assert await check(call(n=[2] if isinstance(good, list) else 1), schema=schema) is not None


async def test_no_more_than_ten_problems_are_told():
    told = await problems(call(path="a", **{f"unknown{i}": i for i in range(5000)}))
    assert len(told) == 11
    assert told["$"] == "there are more problems than these"


async def test_a_message_stays_short_whatever_came():
    big = {"path": "", "mode": "x" * 10**6, "tags": ["B" * 10**6], "head": [0] * 10**5, "filter": {"y" * 10**5: 1}}
    failure = await check(call(**big))
    assert failure is not None
    assert len([part for part in failure.message.split("\n") if len(part) > 700]) <= 1
    assert len(encode(failure.details)) < 10**6


async def test_of_a_large_wrong_list_only_the_first_problems_are_told():
    failure = await check(call(a=["x"] * 100_000), schema={"properties": {"a": {"items": {"type": "integer"}}}})
    assert failure is not None
    assert [problem["path"] for problem in failure.details["problems"]] == [*(f"$.a[{n}]" for n in range(10)), "$"]


async def test_values_nested_very_deeply_are_judged_all_the_same():
    deep: dict = {}
    for _ in range(5000):
        deep = {"a": deep}
    assert list(await problems(call(path=deep))) == ["$"]
    assert await check(call(**deep), schema={"type": "object"}) is None


@pytest.mark.parametrize("arguments", [RawObject(b"[1]"), RawObject(b"{"), {"a": object()}])
async def test_what_is_no_json_object_is_refused(arguments):
    failure = await check(
        ToolCall(id="t", tool="fs:read", arguments=arguments), schema={"properties": {"a": {"enum": [1]}}}
    )
    assert failure.code == "arguments.invalid"
    assert "fs:read" in failure.message
    assert "JSON" in failure.message


async def test_a_lone_surrogate_is_left_to_the_server():
    assert await check(ToolCall(id="t", tool="fs:read", arguments={"path": "\ud800"})) is None


async def test_a_definition_that_changes_is_compiled_again():
    given = services(entry("fs:read", input_schema={"required": ["a"]}))
    wrapper = ArgumentValidation(given)
    assert (await wrapper(call(b=1), FakeRun(), Next())).failure is not None
    given.catalog._entries["fs:read"] = entry("fs:read", input_schema={"required": ["b"]})
    assert (await wrapper(call(b=1), FakeRun(), Next())).failure is None


async def test_validators_are_kept_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(plugin, "MOST_VALIDATORS", 3)
    tools = [entry(f"s:t{i}", input_schema={"required": [f"a{i}"]}) for i in range(5)]
    wrapper = ArgumentValidation(services(*tools))
    for i in (0, 1, 2, 0, 3, 4):
        await wrapper(call(f"s:t{i}", **{f"a{i}": 1}), FakeRun(), Next())
    assert list(wrapper._validators) == [tools[i].digest for i in (0, 3, 4)]


def rehearsed(*pointers, **arguments):
    meta = {"pml/simulated": {"arguments": list(pointers)}}
    return ToolCall(id="t", tool="fs:read", arguments=arguments, extra={"_meta": meta})


async def test_in_a_rehearsal_made_up_values_need_not_fit_but_all_else_must():
    run = FakeRun(dry_run=True)
    task = rehearsed(
        "/head", "/at/x", "/filter/y", head="{{a.n}}", at={"x": "{{a.x}}", "z": 1}, filter={"y": "{{a}}"}, tags=[1]
    )
    told = await problems(task, run=run)
    assert sorted(told) == ["$.at.z", "$.path", "$.tags[0]"]
    assert await check(rehearsed("/head", path="a", head="{{a.n}}"), run=run) is None
    assert list(await problems(rehearsed("/head", head="{{a.n}}"), run=run)) == ["$.path"]
    assert list(await problems(rehearsed("/hea", path="a", head="{{a.n}}"), run=run)) == ["$.head"]


async def test_a_choice_that_a_made_up_value_decides_is_left_open():
    schema = {"properties": {"p": {"oneOf": [{"properties": {"x": {"const": i}}} for i in (1, 2)]}}}
    assert await check(rehearsed("/p/x", p={"x": "{{a}}"}), run=FakeRun(dry_run=True), schema=schema) is None
    assert await check(call(p={"x": 3}), run=FakeRun(dry_run=True), schema=schema) is not None


@pytest.mark.parametrize("meta", [None, {}, {"pml/simulated": 1}, {"pml/simulated": {"arguments": "/head"}}])
async def test_odd_marks_excuse_nothing(meta):
    task = ToolCall(id="t", tool="fs:read", arguments={"path": "a", "head": "x"}, extra={"_meta": meta})
    assert await check(task, run=FakeRun(dry_run=True)) is not None


async def test_nobody_is_excused_when_the_call_is_for_real():
    assert await check(rehearsed("/head", path="a", head="x"), run=FakeRun()) is not None


async def test_checking_small_arguments_takes_a_few_calls_once_their_schema_is_known():
    wrapper, run, instant = ArgumentValidation(services()), FakeRun(), outcome("t")

    async def following(_task, _run):
        return instant

    task = call(path="a", head=3, mode="r")
    await wrapper(task, run, following)
    with counted() as work:
        await wrapper(task, run, following)
    assert work.calls <= 40
