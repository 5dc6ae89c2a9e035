"""The pre-flight of a plan over what earlier calls of its tools have shown: it warns, and refuses nothing."""

from __future__ import annotations

import pytest
from plan_services import PlanServices

from pml_hookspecs import Offer, Step, ToolCall, Workflow
from pml_kit.offers import TOOL_NOTES, ToolNote
from pml_preflight import examination
from pml_preflight.examination import preflight
from pml_preflight.settings import Settings
from pml_testing.fakes import FakeCatalog, FakeRun, entry

pytestmark = pytest.mark.anyio
TEXT, WHOLE = {"type": "string"}, {"type": "integer", "minimum": 1}
CATALOG = FakeCatalog(
    [
        entry("t:delete", input_schema={"type": "object", "properties": {"id": TEXT}, "required": ["id"]}),
        entry("t:raw", input_schema={"type": "object", "properties": {"verbose": {"type": "boolean"}}}),
        entry("t:open"),
    ]
)


def call(id_, tool, *, step=None, **arguments):
    return ToolCall(id=id_, tool=tool, arguments=arguments, step=step or Step())


SEEN = {"type": "object", "properties": {"items": {"type": "array", "items": {
    "type": "object", "properties": {"name": TEXT, "size": WHOLE}}}}}  # fmt: skip


class Notes:
    """Knows what one tool returns."""

    def of(self, tool, session):
        known = {
            "t:raw": ToolNote(result=SEEN),
            "t:open": ToolNote(advice="failed 3 times until: with 'branch'", after="branch"),
        }
        return known.get(tool.id)


@pytest.mark.parametrize(
    ("tasks", "code", "message"),
    [
        ([call("b", "t:delete", id="{{a.items[0].nmae}}")], "reference.undeclared", "did you mean 'name'?"),
        ([call("b", "t:delete", id="{{a.items[0].name.first}}")], "reference.undeclared", "a string"),
        ([call("b", "t:delete", id="{{a.items.name}}")], "reference.undeclared", "an array"),
        ([call("b", "t:delete", id="{{a.items[0].size}}")], "reference.type", "an integer"),
        ([call("b", "t:raw", step=Step(for_each="{{a}}"))], "reference.type", "an object"),
    ],
)
async def test_what_calls_have_shown_is_worth_a_warning_and_never_refuses(tasks, code, message):
    tasks = (call("a", "t:raw"), *tasks)
    services = PlanServices(catalog=CATALOG, offers=[Offer(TOOL_NOTES, Notes())])
    report = (await preflight(Workflow(id="w", tasks=tasks), FakeRun(dry_run=True), services)).to_report()
    assert report["errors"] == []
    assert report["ok"] is True
    assert [one["code"] for one in report["warnings"]] == [code]
    assert message in report["warnings"][0]["message"]
    examiner = examination.Preflights(services, Settings())
    assert await examiner.certain(Workflow(id="w", tasks=tasks), FakeRun()) == []


async def test_what_calls_have_shown_and_what_is_declared_say_nothing_against_what_is_there():
    services = PlanServices(catalog=CATALOG, offers=[Offer(TOOL_NOTES, Notes())])
    tasks = (call("a", "t:raw"), call("b", "t:delete", id="{{a.items[0].name}}"))
    report = (await preflight(Workflow(id="w", tasks=tasks), FakeRun(dry_run=True), services)).to_report()
    assert (report["errors"], report["warnings"]) == ([], [])


@pytest.mark.parametrize(
    ("arguments", "codes"), [({"x": 1}, ["argument.failed_before"]), ({"branch": "{{a.items}}"}, [])]
)
async def test_a_call_that_is_like_those_that_failed_is_warned_of(arguments, codes):
    services = PlanServices(catalog=CATALOG, offers=[Offer(TOOL_NOTES, Notes())])
    tasks = (call("a", "t:raw"), call("b", "t:open", **arguments))
    report = (await preflight(Workflow(id="w", tasks=tasks), FakeRun(dry_run=True), services)).to_report()
    assert [one["code"] for one in report["warnings"]] == codes
    assert all("t:open failed 3 times until: with 'branch'" in one["message"] for one in report["warnings"])
