"""Where servers judge: what an error of theirs is told beside it."""

import pytest
from checked_calls import READ, call, services

from pml_argument_validation.plugin import ArgumentValidation
from pml_hookspecs import Failure, RawObject, Status, ToolCall, encode
from pml_testing.fakes import FakeRun, entry, outcome
from pml_testing.work import counted

pytestmark = pytest.mark.anyio


# What servers judge

SECRET = "sk-live-4242424242424242"
RESULT = {"content": [{"type": "text", "text": "no"}], "structuredContent": {"a": 1}, "isError": True, "more": 1}


async def judged(task, *, schema=READ, failure=None, output=None, refuse=(), run=None):
    """The outcome, and the tasks that went on, where the server answers so."""
    following = []

    async def server(task, _run):
        following.append(task)
        return outcome(task.id, output, status=Status.OK if failure is None else Status.ERROR, failure=failure)

    wrapper = ArgumentValidation(services(entry("fs:read", input_schema=schema), refuse=refuse))
    return await wrapper(task, run or FakeRun(), server), following


async def hint_of(task, **more):
    """What is added to the server's own words."""
    ended, _ = await judged(task, failure=Failure("tool.failed", "no"), output=RESULT, **more)
    own, _, hint = ended.failure.message.partition("\n")
    assert own == "no"
    return hint


@pytest.mark.parametrize("arguments", [{}, {"path": 5}, {"path": "a", "head": "3"}, {"path": "a", "more": 1}])
async def test_a_call_goes_to_its_server_as_it_came(arguments):
    task = call(**arguments)
    ended, (sent,) = await judged(task, output={"content": []})
    assert sent is task
    assert ended.failure is None
    assert ended.output == {"content": []}


async def test_no_schema_is_read_for_a_call_that_its_server_takes(monkeypatch):
    monkeypatch.setattr(ArgumentValidation, "_validator", None)
    assert (await judged(call(path=5), output={"content": []}))[0].failure is None


async def test_a_result_with_an_error_gets_one_more_text_and_is_as_it_was_besides():
    ended, _ = await judged(call(head="3"), failure=Failure("tool.failed", "no"), output=RawObject.of(RESULT))
    hint = (
        "Note by the gateway: the arguments do not fit the input schema of fs:read, which may be why:\n"
        "- $.head: must be an integer, not a string\n- $.path: is missing; expected a string"
    )
    assert ended.output == {**RESULT, "content": [*RESULT["content"], {"type": "text", "text": hint}]}
    assert ended.failure == Failure("tool.failed", f"no\n{hint}")


async def test_a_json_rpc_error_stays_as_it_was_beside_the_message():
    error = {"code": -32602, "message": "no", "data": {"a": 1}}
    ended, _ = await judged(call(), failure=Failure("tool.refused", "no", details={"rpc": error}))
    assert ended.output is None
    assert ended.failure.details == {"rpc": error}
    assert ended.failure.message.startswith("no\nNote by the gateway: ")


@pytest.mark.parametrize("output", [None, {"isError": True}, {"content": "text", "isError": True}])
async def test_a_result_without_a_list_of_content_stays_as_it_is(output):
    ended, _ = await judged(call(), failure=Failure("tool.failed", "no"), output=output)
    assert ended.output == output
    assert "is missing" in ended.failure.message


@pytest.mark.parametrize("code", ["tool.timed_out", "tool.not_connected", "policy.denied", "limit.rate"])
async def test_what_no_server_said_gets_no_note(code):
    failure = Failure(code, "no")
    assert (await judged(call(), failure=failure))[0].failure is failure


async def test_an_error_about_arguments_that_fit_is_as_the_server_sent_it():
    output = RawObject.of(RESULT)
    ended, _ = await judged(call(path="a"), failure=Failure("tool.failed", "no"), output=output)
    assert ended.output is output
    assert ended.failure.message == "no"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, SECRET),
        ({"enum": ["a", "b"]}, SECRET),
        ({"const": "a"}, SECRET),
        ({"pattern": "^x"}, SECRET),
        ({"maxLength": 3}, SECRET),
        ({"minimum": 10**30}, 4242424242424242),
        ({"multipleOf": 5}, 4242424242424242),
        ({"uniqueItems": True}, [SECRET, SECRET]),
        ({"contains": {"const": 1}}, [SECRET]),
        ({"items": {"type": "integer"}}, [SECRET]),
        ({"not": {}}, SECRET),
        (False, SECRET),
        ({"propertyNames": {"maxLength": 2}}, {SECRET: 1}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, SECRET),
        ({"anyOf": [{"minLength": 99}, {"maxLength": 1}]}, SECRET),
        ({"oneOf": [{}, {}]}, SECRET),
        ({"if": {}, "then": {"type": "integer"}}, SECRET),
        ({"dependentRequired": {"a": ["b"]}}, {"a": SECRET}),
        ({"maxProperties": 0}, {"a": SECRET}),
    ],
    ids=lambda part: part if isinstance(part, str) else encode(part).decode()[:40],
)
async def test_no_value_of_an_argument_is_repeated(schema, value):
    hint = await hint_of(call(key=value), schema={"properties": {"key": schema}})
    assert "$.key" in hint
    assert "4242424242424242" not in hint


async def test_a_note_stays_short_whatever_came():
    big = {f"unknown{'x' * 1000}{i}": i for i in range(50)}
    hint = await hint_of(call("fs:read", path=5, **big))
    assert hint.endswith("\n- and more")
    assert len(hint) < 1500


@pytest.mark.parametrize("arguments", [RawObject(b"[1]"), RawObject(b"{"), {"path": "\ud800"}, {"path": object()}])
async def test_of_what_is_no_json_there_is_no_note(arguments):
    assert await hint_of(ToolCall(id="t", tool="fs:read", arguments=arguments)) == ""


async def test_a_fault_in_making_the_note_keeps_what_the_server_said(monkeypatch):
    def fail(*_args, **_more):
        raise RecursionError

    monkeypatch.setattr(ArgumentValidation, "_validator", fail)
    assert await hint_of(call()) == ""


@pytest.mark.parametrize(
    ("refuse", "goes_out"),
    [
        ((), True),
        (("s:*",), True),
        (("fs:write",), True),
        (("*",), False),
        (("fs:*",), False),
        (("s:*", "*:read"), False),
    ],
)
async def test_the_setting_names_servers_and_tools(refuse, goes_out):
    ended, sent = await judged(call(), refuse=refuse)
    assert bool(sent) is goes_out
    assert (ended.failure is None) is goes_out
    known = services(refuse=refuse)
    assert ArgumentValidation(known).judges(known.catalog.get("fs:read")) is not goes_out


async def test_a_rehearsal_says_what_does_not_fit_because_no_server_does():
    ended, sent = await judged(call(), run=FakeRun(dry_run=True))
    assert ended.failure.code == "arguments.invalid"
    assert sent == []


async def test_a_call_that_its_server_takes_costs_a_few_calls_however_large_its_arguments():
    wrapper, run, instant = ArgumentValidation(services(refuse=())), FakeRun(), outcome("t")

    async def following(_task, _run):
        return instant

    task = call(path="a", tags=["x"] * 10_000)
    await wrapper(task, run, following)
    with counted() as work:
        await wrapper(task, run, following)
    assert work.calls <= 20
