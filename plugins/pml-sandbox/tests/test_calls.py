"""Calls that code makes: what it may call, and what comes back."""

from __future__ import annotations

import asyncio

import pytest

from pml_hookspecs import CodeRun, Failure, RawObject, Status
from pml_sandbox.calls import CallError, CallLimitError, Calls, identifier, value_of
from pml_testing.fakes import FakeCatalog, FakeLog, FakeRun, entry, outcome

CATALOG = FakeCatalog([entry("my-fs:read-file"), entry("fs:read"), entry("fs:class"), entry("a-b:x"), entry("a_b:x")])


def calls(run: FakeRun, *, tools: tuple[str, ...] | None = None, most: int = 10, most_at_once: int = 4) -> Calls:
    task = CodeRun(id="t", language="any", source="", tools=tools)
    return Calls(task, run, CATALOG, FakeLog(), most=most, most_at_once=most_at_once)


@pytest.mark.parametrize(
    ("output", "value"),
    [
        ({"content": [{"type": "text", "text": "x"}], "structuredContent": {"a": 1}}, {"a": 1}),
        ({"content": [{"type": "text", "text": '{"a": 1}'}]}, {"a": 1}),
        ({"content": [{"type": "text", "text": "plain"}]}, "plain"),
        ({"content": [{"type": "text", "text": "NaN"}]}, "NaN"),
        ({"content": [{"type": "text", "text": "1e999"}]}, "1e999"),
        ({"content": [{"type": "text", "text": "1"}, {"type": "text", "text": "2"}]}, "1\n2"),
        ({"content": [{"type": "text", "text": "1"}, {"type": "image", "data": ""}]}, "1"),
        ({"content": [{"type": "image", "data": ""}]}, {"content": [{"type": "image", "data": ""}]}),
        ({"content": []}, {"content": []}),
        (RawObject(b'{"content":[],"structuredContent":{"a":1}}'), {"a": 1}),
        ([1], [1]),
        ({"value": 1}, {"value": 1}),
        (None, None),
    ],
)
def test_what_code_gets_of_a_result(output: object, value: object) -> None:
    assert value_of(output) == value


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("read-file", "read_file"),
        ("2x", "_2x"),
        ("class", "_class"),
        ("ok", "ok"),
        ("a.b/c", "a_b_c"),
        ("ü", "_"),
        ("", "_"),
    ],
)
def test_names_become_identifiers(name: str, made: str) -> None:
    assert identifier(name) == made


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("fs:read", "fs:read"),
        ("my_fs:read_file", "my-fs:read-file"),
        ("my-fs__read-file", "my-fs:read-file"),
        ("fs:_class", "fs:class"),
        ("a_b:x", "a_b:x"),
        ("no:such", "no:such"),
    ],
)
async def test_a_tool_is_found_by_its_id_and_by_names_spelt_as_identifiers(name: str, tool: str) -> None:
    run = FakeRun()
    await calls(run).call(name, {})
    assert [call.tool for call in run.dispatched] == [tool]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("patterns", "name", "may"),
    [
        (None, "fs:read", True),
        ((), "fs:read", False),
        (("fs:*",), "fs:read", True),
        (("fs:*",), "my_fs:read_file", False),
        (("my-fs:*",), "my_fs:read_file", True),
        (("fs:r*", "x:*"), "fs:class", False),
        (("FS:*",), "fs:read", False),
    ],
)
async def test_patterns_say_what_may_be_called_by_canonical_id(patterns, name: str, may) -> None:
    run = FakeRun()
    if may:
        await calls(run, tools=patterns).call(name, {})
    else:
        with pytest.raises(CallError, match="may not call") as refused:
            await calls(run, tools=patterns).call(name, {})
        assert refused.value.failure.code == "code.tool_not_allowed"
        assert refused.value.status is Status.DENIED
    assert len(run.dispatched) == may


@pytest.mark.anyio
async def test_calls_are_numbered_by_tool() -> None:
    run = FakeRun()
    made = calls(run)
    for name in ("fs:read", "a_b:x", "fs:read"):
        await made.call(name, None)
    assert [call.id for call in run.dispatched] == ["fs:read#1", "a_b:x#1", "fs:read#2"]


@pytest.mark.anyio
async def test_one_call_too_many_is_refused_and_refused_calls_count() -> None:
    made = calls(FakeRun(), tools=("fs:*",), most=2)
    with pytest.raises(CallError):
        await made.call("a_b:x", {})
    await made.call("fs:read", {})
    with pytest.raises(CallLimitError):
        await made.call("fs:read", {})


@pytest.mark.anyio
async def test_more_calls_than_may_be_under_way_wait_for_their_turn() -> None:
    going, under_way, most = asyncio.Event(), 0, 0

    async def answer(task, run):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await going.wait()
        under_way -= 1
        return outcome(task.id, 1)

    made = calls(FakeRun(answer), most_at_once=3)
    waiting = [asyncio.ensure_future(made.call("fs:read", {})) for _ in range(9)]
    asyncio.get_running_loop().call_later(0.02, going.set)
    assert await asyncio.gather(*waiting) == [1] * 9
    assert most == 3


@pytest.mark.anyio
@pytest.mark.parametrize("status", [Status.ERROR, Status.TIMED_OUT, Status.DENIED, Status.INPUT_REQUIRED])
async def test_a_call_that_fails_raises_with_the_failure(status: Status) -> None:
    failure = Failure("tool.failed", "No.", retryable=True)

    async def answer(task, run):
        return outcome(task.id, status=status, failure=failure)

    with pytest.raises(CallError, match="No") as raised:
        await calls(FakeRun(answer)).call("fs:read", {})
    assert (raised.value.failure, raised.value.status, raised.value.tool) == (failure, status, "fs:read")


@pytest.mark.anyio
async def test_a_call_that_somebody_else_cancelled_fails_and_cancels_nothing() -> None:
    async def answer(task, run):
        raise asyncio.CancelledError

    with pytest.raises(CallError, match="was cancelled"):
        await calls(FakeRun(answer)).call("fs:read", {})
