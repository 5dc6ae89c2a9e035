from __future__ import annotations

import asyncio
import threading
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

import msgspec
import pytest

from pml_hookspecs import CodeRun, InvalidArguments, RawObject, Run, ToolCall, Workflow, hookimpl
from pml_kit.mcp.functions import meta_tool
from pml_kit.shapes import ShapeError, item_problem
from pml_testing.fakes import FakeRun

if TYPE_CHECKING:
    from decimal import Context

pytestmark = pytest.mark.anyio


@dataclass
class Place:
    city: str
    floor: int = 0


class Range(TypedDict):
    first: int
    last: int


class Answer(msgspec.Struct):
    found: int


def everything(  # noqa: PLR0913 - one of each kind
    *,
    text: Annotated[str, "Any text"],
    number: int,
    share: float,
    yes: bool,
    words: list[str],
    sizes: dict[str, int],
    kind: Literal["a", "b"] = "a",
    limit: int = 8,
    near: Place | None = None,
    lines: Annotated[Range | None, "Which lines"] = None,
    more: list[str] = ["x"],  # noqa: B006 - each call has its own
    anything: Any = 1,
) -> str:
    """Take one of each kind.

    And say so.
    """
    more.append("y")
    return repr((text, number, share, yes, words, sizes, kind, limit, near, lines, more, anything))


GIVEN = {"text": "t", "number": 1, "share": 0.5, "yes": True, "words": ["w"], "sizes": {"s": 2}}


async def called(function: Any, arguments: Mapping[str, Any], run: Any = None) -> Any:
    call = meta_tool(function).call
    assert call is not None
    return await call(arguments, run or FakeRun())


def test_the_schema_follows_from_the_hints() -> None:
    definition = meta_tool(everything).definition
    assert definition["name"] == "everything"
    assert definition["description"] == "Take one of each kind.\n\nAnd say so."
    schema = definition["inputSchema"]
    assert schema["required"] == ["text", "number", "share", "yes", "words", "sizes"]
    assert schema["additionalProperties"] is False
    assert schema["properties"] == {
        "text": {"type": "string", "description": "Any text"},
        "number": {"type": "integer"},
        "share": {"type": "number"},
        "yes": {"type": "boolean"},
        "words": {"type": "array", "items": {"type": "string"}},
        "sizes": {"type": "object", "additionalProperties": {"type": "integer"}},
        "kind": {"enum": ["a", "b"], "default": "a"},
        "limit": {"type": "integer", "default": 8},
        "near": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Place"}], "default": None}
        if schema["properties"]["near"]["anyOf"][0] == {"type": "null"}
        else {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}], "default": None},
        "lines": schema["properties"]["lines"],
        "more": schema["properties"]["more"],
        "anything": {"default": 1},
    }
    assert schema["properties"]["lines"]["description"] == "Which lines"
    assert schema["$defs"]["Place"]["required"] == ["city"]
    assert set(schema["$defs"]["Range"]["required"]) == {"first", "last"}


def test_it_is_a_meta_tool_as_the_gateway_takes_it() -> None:
    made = meta_tool(everything, name="other", effects="write", listed=False, aliases=("third",))
    assert item_problem("pml_meta_tools", made) == ""
    assert made.definition["name"] == "other"
    assert made.definition["annotations"] == {"readOnlyHint": False, "destructiveHint": False}
    assert (made.listed, made.aliases) == (False, ("third",))


async def test_arguments_come_as_their_hints_say() -> None:
    first = await called(everything, GIVEN)
    assert first == repr(("t", 1, 0.5, True, ["w"], {"s": 2}, "a", 8, None, None, ["x", "y"], 1))
    assert await called(everything, GIVEN) == first
    more = {"near": {"city": "Rome"}, "lines": {"first": 1, "last": 2}, "limit": None}
    told = await called(everything, RawObject.of({**GIVEN, **more}))
    assert "Place(city='Rome', floor=0), {'first': 1, 'last': 2}" in told
    assert ", 8, Place" in told  # a null for what may not be one counts as left out


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"text": 1}, "everything: text: Expected `str`, got `int`."),
        ({"near": {"city": 2}}, "everything: near.city: Expected `str`, got `int`."),
        ({"number": True}, "everything: number: Expected `int`, got `bool`."),
        ({"kind": "c"}, "everything: kind: Invalid enum value 'c'."),
        ({"tex": ""}, "everything: Object contains unknown field `tex`."),
        ({"text": None}, "everything: text: Expected `str`, got `null`."),
    ],
)
async def test_what_does_not_fit_is_said(wrong: Mapping[str, Any], said: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        await called(everything, {**GIVEN, **wrong})
    assert str(caught.value) == said


async def test_what_is_missing_is_said() -> None:
    with pytest.raises(InvalidArguments, match="missing required field `number`"):
        await called(everything, {"text": ""})


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("text", "text"),
        ({"a": 1}, {"a": 1}),
        (Place("Rome"), {"city": "Rome", "floor": 0}),
        (Answer(2), {"found": 2}),
        ([1, 2], {"result": [1, 2]}),
        (None, {"result": None}),
    ],
)
async def test_what_it_returns_is_the_result(value: Any, result: Any) -> None:
    def give() -> Any:
        """Give it."""
        return value

    async def give_later() -> Any:
        """Give it."""
        return value

    assert await called(give, {}) == result
    assert await called(give_later, {}) == result


async def test_a_function_that_is_no_coroutine_keeps_nobody_waiting() -> None:
    def where() -> str:
        """Say in which thread it is."""
        return threading.current_thread().name

    async def here() -> str:
        """Say in which thread it is."""
        return threading.current_thread().name

    assert await called(where, {}) != threading.current_thread().name
    assert await called(here, {}) == threading.current_thread().name


async def test_it_is_given_the_run() -> None:
    async def who(word: str, run: Run) -> str:
        """Say for whom."""
        return word + run.session.principal

    run = FakeRun()
    assert meta_tool(who).definition["inputSchema"]["properties"] == {"word": {"type": "string"}}
    assert await called(who, {"word": "for "}, run) == f"for {run.session.principal}"


def test_one_that_returns_a_task_stands_for_it() -> None:
    def look(path: str) -> ToolCall:
        """Look into a file."""
        return ToolCall(id="look", tool="files:read", arguments={"path": path})  # type: ignore[arg-type]

    def one_of(code: str) -> Workflow | CodeRun:
        """Run some."""
        return CodeRun(id="one", language="python", source=code)

    made = meta_tool(look, effects="read")
    assert item_problem("pml_meta_tools", made) == ""
    assert made.call is None
    assert made.task is not None
    assert made.task({"path": "/a"}) == look("/a")
    with pytest.raises(InvalidArguments, match="look: path: Expected `str`"):
        made.task({"path": 1})
    assert meta_tool(one_of).task is not None


class Odd:
    """Nothing that JSON has."""


def _unhinted(word) -> str:  # type: ignore[no-untyped-def]
    """Say it."""
    return str(word)


def _many(*words: str) -> str:
    """Say them."""
    return " ".join(words)


def _options(**words: str) -> str:
    """Say them."""
    return str(words)


def _odd(thing: Odd) -> str:
    """Say it."""
    return str(thing)


def _unknown(thing: Context) -> str:
    """Say it."""
    return str(thing)


def _undocumented(word: str) -> str:
    return word


async def _task_later(word: str) -> ToolCall:
    """Say it."""
    raise NotImplementedError(word)


def _unions(thing: Place | Answer) -> str:
    """Say it."""
    return str(thing)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (_unhinted, "'word' has no type hint; write one: word: str"),
        (_many, "cannot be given by name"),
        (_options, "cannot be given by name"),
        (_odd, "no JSON schema can be made"),
        (_unknown, "import it where the module is run"),
        (_undocumented, "has no docstring"),
        (lambda: "", "has no docstring"),
        (_task_later, "returns a task to run"),
        (_unions, "no JSON schema can be made"),
    ],
)
def test_what_no_tool_can_be_made_of_is_said_in_one_line(function: Any, said: str) -> None:
    with pytest.raises(ShapeError) as caught:
        meta_tool(function)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_plugin_with_a_bad_hint_is_left_out_and_the_gateway_goes_on(gateway: Any, capfd: Any) -> None:
    made: Any = types.ModuleType("odd_tools")
    made.pml_meta_tools = hookimpl(lambda services: [meta_tool(everything), meta_tool(_odd)])
    async with gateway([("hooks", "odd_tools", made)]) as client:
        assert "no JSON schema can be made of the hints of '_odd'" in client.gateway.supervisor.health["odd_tools"]
        assert "isError" not in await client.call("files__read_file")
    assert "Traceback" not in capfd.readouterr().err


async def test_calls_of_it_take_the_way_of_all_others(gateway: Any) -> None:
    async def slow(n: int) -> dict[str, int]:
        """Double a number."""
        await asyncio.sleep(0)
        return {"twice": 2 * n}

    made: Any = types.ModuleType("doubles")
    made.pml_meta_tools = hookimpl(lambda services: [meta_tool(slow, effects="read")])
    async with gateway([("hooks", "doubles", made)]) as client:
        assert (await client.call("slow", {"n": 4}))["structuredContent"] == {"twice": 8}
        refused = await client.call("slow", {"n": "4"})
    assert refused["isError"]
    assert refused["content"][0]["text"] == "slow: n: Expected `int`, got `str`."
