"""The contract every tool of the gateway's own keeps. Subclass and provide ``tool`` and ``good``."""

from __future__ import annotations

import asyncio
import copy
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pml_hookspecs import InvalidArguments, MetaTool, RawObject, ToolFailed, encode
from pml_hookspecs.tasks import Node
from pml_kit.schema.bounds import schema_problem
from pml_kit.shapes import item_problem
from pml_testing.fakes import FakeRun
from pml_testing.work import left_over

if TYPE_CHECKING:
    from pml_hookspecs import Run

GROUP = "pml.plugins"
NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""What clients take for the name of a tool."""
HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
WRONG: Sequence[Any] = (None, [], {}, [[]], {"a": {}}, -1, 2.5, True, "", "\x00", "x" * 20_000)
"""Values of which each is no good for some parameter."""


@pytest.mark.anyio
class MetaToolContract:
    """Tests of a meta-tool. Override ``bad`` with more that it has to refuse."""

    group = GROUP

    @pytest.fixture
    def tool(self) -> MetaTool:
        """The tool to test, made as ``pml_meta_tools`` makes it."""
        raise NotImplementedError("override: return the tool to test")

    @pytest.fixture
    def good(self) -> Mapping[str, Any]:
        """Arguments that it takes."""
        raise NotImplementedError("override: return arguments that the tool takes")

    @pytest.fixture
    def bad(self, tool: MetaTool, good: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Arguments of which many do not fit: each of the good ones left out, and each of all with any value."""
        names = {*tool.definition["inputSchema"].get("properties", {}), *good}
        left_out = [{other: value for other, value in good.items() if other != name} for name in good]
        return [{}, *left_out, *({**good, name: value} for name in sorted(names) for value in WRONG)]

    @pytest.fixture
    def run(self) -> Any:
        """What it is called with."""
        return FakeRun()

    def test_is_a_meta_tool_as_the_gateway_takes_it(self, tool: MetaTool) -> None:
        assert item_problem("pml_meta_tools", tool) == ""

    def test_its_definition_can_be_read_by_clients_and_models(self, tool: MetaTool) -> None:
        definition = tool.definition
        for name in (definition["name"], *tool.aliases):
            assert NAME.fullmatch(name), f"clients do not take the name {name!r}"
        assert str(definition.get("description") or "").strip(), "no model knows what it is for without a description"
        assert definition["inputSchema"].get("type") == "object", "strict clients want the type object"
        assert schema_problem(definition["inputSchema"]) == ""
        annotations = definition.get("annotations", {})
        assert all(isinstance(annotations[hint], bool) for hint in HINTS if hint in annotations)

    async def test_good_arguments_are_answered(self, tool: MetaTool, good: Mapping[str, Any], run: Run) -> None:
        answer = await _answer(tool, good, run)
        if tool.task is not None:
            assert isinstance(answer, Node), f"it stands for a {type(answer).__name__}, which is no task"
        else:
            assert isinstance(answer, str | Mapping), f"it answers with a {type(answer).__name__}"
            encode(answer)

    async def test_arguments_may_come_as_the_wire_has_them(
        self, tool: MetaTool, good: Mapping[str, Any], run: Run
    ) -> None:
        await _answer(tool, RawObject.of(good), run)

    async def test_arguments_are_left_as_they_are(self, tool: MetaTool, good: Mapping[str, Any], run: Run) -> None:
        given = copy.deepcopy(dict(good))
        await _answer(tool, given, run)
        assert given == good

    async def test_what_does_not_fit_is_said_and_nothing_else_raised(
        self, tool: MetaTool, bad: Sequence[Mapping[str, Any]], run: Run
    ) -> None:
        for given in bad:
            try:
                await _answer(tool, given, run)
            except (InvalidArguments, ToolFailed) as exc:
                if not str(exc).strip():
                    pytest.fail(f"for {_shown(given)} it says nothing")
            except Exception as exc:
                pytest.fail(f"for {_shown(given)} it raises {type(exc).__name__}: {exc}; raise InvalidArguments")

    async def test_leaves_no_task_behind(self, tool: MetaTool, good: Mapping[str, Any], run: Run) -> None:
        before = asyncio.all_tasks()
        await _answer(tool, good, run)
        assert await left_over(before) == []

    def test_says_the_same_to_the_same_client(self, tool: MetaTool, run: Run) -> None:
        assert encode(tool.definition) == encode(copy.deepcopy(dict(tool.definition)))
        if not isinstance(tool.listed, bool):
            said = [tool.listed(run.session) for _ in range(2)]
            assert all(isinstance(one, bool) for one in said), f"'listed' says {said[0]!r}, neither True nor False"
            assert said[0] == said[1]


async def _answer(tool: MetaTool, arguments: Mapping[str, Any], run: Run) -> Any:
    if tool.task is not None:
        return tool.task(arguments)
    assert tool.call is not None
    answer = tool.call(arguments, run)
    return await answer if inspect.isawaitable(answer) else answer


def _shown(arguments: Mapping[str, Any]) -> str:
    return "{" + ", ".join(_members(arguments)) + "}"


def _members(arguments: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{name!r}: {value!r:.40}" for name, value in arguments.items())
