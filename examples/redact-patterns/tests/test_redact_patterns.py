from __future__ import annotations

import time

import pytest

import pml_example_redact_patterns as plugin
from pml_example_redact_patterns import Redaction, Settings
from pml_hookspecs import CodeRun, Failure, RawObject, Status, ToolCall
from pml_testing.fakes import FakeRun, FakeServices, outcome
from pml_testing.gateway import ScriptedServer
from pml_testing.wrapper import WrapperContract

pytestmark = pytest.mark.anyio
TEXT = "from ada@example.org to bob.b+x@mail.example.co.uk, at 3@4"
CLEAN = "from [e-mail] to [e-mail], at 3@4"


class TestContract(WrapperContract):
    @pytest.fixture
    def wrapper(self):
        return Redaction(Settings())

    @pytest.fixture
    def tasks(self):
        return [ToolCall(id="one", tool="crm:find", arguments={"who": ["ada@example.org", {"n": 1}]})]


async def through(settings, task, answer):
    """What came to the server, and what came back."""
    seen = []

    async def call_next(task, run):
        seen.append(task)
        return answer

    return seen, await Redaction(settings)(task, FakeRun(), call_next)


async def test_arguments_and_results_are_cleaned_however_deep_they_are():
    task = ToolCall(id="one", tool="crm:find", arguments={"who": [TEXT, {"deep": TEXT}], "n": 3, "no": None})
    raw = RawObject(b'{"content":[{"type":"text","text":"ada\\u0040example.org"}],"n":1.5}')
    seen, ended = await through(Settings(), task, outcome("one", raw))
    assert seen[0].arguments == {"who": [CLEAN, {"deep": CLEAN}], "n": 3, "no": None}
    assert ended.output == {"content": [{"type": "text", "text": "[e-mail]"}], "n": 1.5}


async def test_what_has_nothing_to_hide_is_passed_on_as_it_is():
    task = ToolCall(id="one", tool="crm:find", arguments={"who": ["nobody", {}], "n": 3, "flag": True})
    answer = outcome("one", RawObject(b'{"content":[],"list":[1,null,"x"]}'))
    seen, ended = await through(Settings(), task, answer)
    assert seen == [task]
    assert seen[0] is task
    assert ended is answer


async def test_what_a_server_says_about_a_failure_is_cleaned():
    failure = Failure("tool.failed", f"no mailbox {TEXT}", True, {"rpc": {"code": 1, "message": TEXT}})
    _, ended = await through(
        Settings(), ToolCall(id="one", tool="a:b"), outcome("one", status=Status.ERROR, failure=failure)
    )
    assert ended.failure == Failure("tool.failed", f"no mailbox {CLEAN}", True, {"rpc": {"code": 1, "message": CLEAN}})


async def test_either_direction_can_be_left_alone():
    task = ToolCall(id="one", tool="mail:send", arguments={"to": TEXT})
    seen, ended = await through(Settings(arguments=False), task, outcome("one", {"sent": TEXT}))
    assert (seen[0].arguments["to"], ended.output["sent"]) == (TEXT, CLEAN)
    seen, ended = await through(Settings(results=False), task, outcome("one", {"sent": TEXT}))
    assert (seen[0].arguments["to"], ended.output["sent"]) == (CLEAN, TEXT)


async def test_patterns_are_the_users():
    settings = Settings(patterns={"iban": r"\b[A-Z]{2}\d{2}[A-Z0-9]{11,30}\b", "quote": r"\\1"})
    _, ended = await through(
        settings, ToolCall(id="one", tool="a:b"), outcome("one", {"to": f"DE02120300000000202051 {TEXT}"})
    )
    assert ended.output["to"] == f"[iban] {TEXT}"


async def test_code_is_left_alone_because_what_it_calls_is_cleaned():
    task = CodeRun(id="one", language="python", source=f"return {TEXT!r}")
    seen, ended = await through(Settings(), task, outcome("one", TEXT))
    assert (seen[0], ended.output) == (task, TEXT)


def test_a_pattern_that_is_none_is_named():
    services = FakeServices(settings=Settings(patterns={"odd": "("}))
    with pytest.raises(ValueError, match=r"\[plugins.redact_patterns\] patterns.odd"):
        plugin.pml_wrap_executor(services)


def test_a_long_text_is_searched_in_time():
    began = time.perf_counter()
    assert len(Redaction(Settings()).clean("x" * 1_000_000)) == 1_000_000
    assert Redaction(Settings()).clean("a." * 200_000 + "@") is not None
    assert time.perf_counter() - began < 2


async def test_neither_server_nor_client_sees_an_address(gateway, store):
    async def answer(name, arguments):
        return {"content": [{"type": "text", "text": TEXT}]}

    server = ScriptedServer(["find"], answer)
    async with gateway([plugin], {"crm": server}) as client:
        assert (await client.call("crm__find", {"who": TEXT}))["content"][0]["text"] == CLEAN
    assert server.calls == [("find", {"who": CLEAN})]


async def test_names_in_results_are_cleaned_and_no_member_is_lost():
    task = ToolCall(id="one", tool="crm:find", arguments={"by": {"ada@example.org": TEXT}})
    members = {"ada@example.org": 1, "n": 0, "bob@example.org": {"eve@example.org": 2}, "[e-mail] 2": 3, "x@y.org": 4}
    seen, ended = await through(Settings(), task, outcome("one", members))
    assert list(ended.output.items()) == [
        ("[e-mail]", 1),
        ("n", 0),
        ("[e-mail] 3", {"[e-mail]": 2}),
        ("[e-mail] 2", 3),
        ("[e-mail] 5", 4),
    ]
    assert seen[0].arguments == {"by": {"ada@example.org": CLEAN}}


def test_a_name_that_looks_like_a_numbered_one_is_not_overwritten():
    clean = Redaction(Settings()).clean
    assert clean({"[e-mail] 3": 1, "ada@example.org": 2, "bob@example.org": 3}) == {
        "[e-mail] 3": 1,
        "[e-mail]": 2,
        "[e-mail] 3 3": 3,
    }


def test_many_names_that_would_be_the_same_are_told_apart_in_time():
    began = time.perf_counter()
    assert len(Redaction(Settings()).clean({f"a{n}@example.org": n for n in range(50_000)})) == 50_000
    assert time.perf_counter() - began < 2
