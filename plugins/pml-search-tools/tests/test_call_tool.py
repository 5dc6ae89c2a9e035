from __future__ import annotations

from typing import Any

import pytest

from pml_hookspecs import CatalogEntry, InvalidArguments, ToolCall
from pml_search_tools.call_tool import CallTool
from pml_testing.fakes import FakeCatalog, FakeServices, entry

META = ("search_tools", "call_tool", "execute_workflow")
TOOLS = [
    entry("filesystem:read_file"),
    entry("pml:get_execution_result"),
    *(entry(f"pml:{name}", meta=True) for name in META),
]


class Aliases(FakeCatalog):
    def resolve(self, name: str) -> CatalogEntry | None:
        return super().resolve("pml:execute_workflow" if name == "execute_dag" else name)


def call(**arguments: Any) -> ToolCall:
    services: Any = FakeServices(catalog=Aliases(TOOLS))
    return CallTool(services)(arguments)


@pytest.mark.parametrize("name", ["filesystem:read_file", "filesystem__read_file", "get_execution_result", "not:known"])
def test_it_stands_for_a_call_of_the_named_tool(name: str) -> None:
    assert call(name=name, arguments={"path": "/a"}) == ToolCall(id="call", tool=name, arguments={"path": "/a"})


def test_arguments_that_a_model_wrote_as_a_string_are_read() -> None:
    assert call(name="a:b", arguments='{"path": "/a"}') == ToolCall(id="call", tool="a:b", arguments={"path": "/a"})


@pytest.mark.parametrize("arguments", [{}, {"arguments": None}, {"arguments": {}}])
def test_arguments_may_be_left_out(arguments: dict[str, Any]) -> None:
    assert call(name=" filesystem__read_file ", **arguments) == ToolCall(id="call", tool="filesystem__read_file")


@pytest.mark.parametrize("dry_run", [True, False])
def test_it_can_be_rehearsed(dry_run: bool) -> None:  # noqa: FBT001 - as the argument is
    assert call(name="a:b", dry_run=dry_run) == ToolCall(id="call", tool="a:b", dry_run=dry_run)


@pytest.mark.parametrize("name", [*META, *(f"pml:{name}" for name in META), "execute_dag"])
def test_the_meta_tools_cannot_be_called_through_it(name: str) -> None:
    with pytest.raises(InvalidArguments, match=r"call (search_tools|call_tool|execute_workflow) directly"):
        call(name=name, arguments={"name": name})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "'name' is missing"),
        ({"name": ""}, "'name' is empty; give the name"),
        ({"name": " "}, "'name' is empty; give the name"),
        ({"name": 1}, "'name' must be a string, not 1"),
        ({"name": "a:b", "arguments": "{"}, "'arguments' must be an object, not '{'"),
        ({"name": "a:b", "arguments": "[]"}, r"'arguments' must be an object, not \[\]"),
        ({"name": "a:b", "arguments": []}, r"'arguments' must be an object, not \[\]"),
        ({"name": "a:b", "dry_run": "yes"}, "'dry_run' must be true or false, not 'yes'"),
        ({"name": "a:b", "path": "/a"}, "unknown parameter 'path'.*the tool's own parameters go into 'arguments'"),
    ],
)
def test_bad_arguments_are_refused_with_what_to_do(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArguments, match=message):
        call(**arguments)
