"""The wrapper that gives calls what is fixed."""

from __future__ import annotations

import pytest

from pml_hookspecs import RawObject, Status, ToolCall, ToolId
from pml_presentation import plugin
from pml_presentation.arguments import CODE, FixedArguments
from pml_presentation.settings import Settings, Tool
from pml_testing.fakes import FakeCatalog, FakeRun, FakeServices, entry
from pml_testing.wrapper import Next, WrapperContract

pytestmark = pytest.mark.anyio
TOOLS = {"s:read": Tool(arguments={"root": "/data", "deep": True}, defaults={"limit": 5})}


def made():
    schema = {"type": "object", "properties": {"root": {}, "Root": {}, "deep": {}, "limit": {}, "path": {}}}
    tools = [entry("s:read", input_schema=schema), entry("s:write")]
    return FixedArguments(FakeServices(catalog=FakeCatalog(tools)), TOOLS)


class TestFixedArguments(WrapperContract):
    @pytest.fixture
    def wrapper(self):
        return made()

    @pytest.fixture
    def tasks(self):
        return [
            ToolCall(id="fixed", tool=ToolId("s:read"), arguments={"path": "a"}),
            ToolCall(id="refused", tool=ToolId("s:read"), arguments={"root": "/etc"}),
        ]


async def sent(arguments, tool="s:read"):
    after = Next()
    outcome = await made()(ToolCall(id="t", tool=ToolId(tool), arguments=arguments), FakeRun(), after)
    return (after.calls[0][0].arguments if after.calls else None), outcome


async def test_what_is_fixed_is_added_and_what_is_missing_given():
    arguments, _ = await sent({"path": "a"})
    assert arguments.raw == b'{"limit":5,"path":"a","root":"/data","deep":true}'
    arguments, _ = await sent({"limit": 7, "root": "/data", "Root": "declared as well"})
    assert arguments == {"limit": 7, "Root": "declared as well", "root": "/data", "deep": True}


async def test_calls_of_other_tools_are_handed_on_as_they_are():
    given = RawObject(b'{"root": "/etc"}')
    arguments, _ = await sent(given, "s:write")
    assert arguments is given


@pytest.mark.attack("A fixed argument has its value", "give it one that Python takes for the same")
@pytest.mark.parametrize("given", [{"deep": 1}, {"deep": 1.0}, {"deep": "true"}, {"root": b"/data".hex()}, {"DEEP": 0}])
async def test_another_value_is_refused(given):
    arguments, outcome = await sent(given)
    assert arguments is None
    assert outcome.status is Status.DENIED
    assert outcome.failure.code == CODE
    assert "/data" not in outcome.failure.message


async def test_arguments_that_are_no_object_are_refused():
    arguments, outcome = await sent(RawObject(b"[1]"))
    assert arguments is None
    assert "not a JSON object" in outcome.failure.message


def test_nothing_is_contributed_where_nothing_is_said():
    services = FakeServices("presentation", settings=Settings())
    assert plugin.pml_wrap_executor(services=services) == []
    assert plugin.pml_filter_tools(services=services) == []
    assert len(plugin.pml_offers(services=services)) == 1


def test_an_endpoint_that_is_not_there_is_doubtful():
    settings = Settings(endpoints={"work": ()})
    (line,) = plugin.settings_warnings(settings, [], ["s"])
    assert "plugins.presentation.endpoints.work: there is no such endpoint" in line
