"""Tools that plans of tests name, and what the pre-flight says of a plan of these."""

from __future__ import annotations

from plan_services import PlanServices

from pml_hookspecs import (
    CodeRun,
    ServerStatus,
    Step,
    ToolCall,
    Workflow,
)
from pml_preflight.examination import preflight
from pml_testing.fakes import FakeCatalog, FakeRun, entry

TEXT, WHOLE = {"type": "string"}, {"type": "integer", "minimum": 1}
ISSUE = {
    "type": "object",
    "properties": {
        "id": TEXT,
        "number": WHOLE,
        "state": {"enum": ["open", "closed"]},
        "by": {"type": ["string", "null"]},
    },
    "required": ["id", "number"],
    "additionalProperties": False,
}
ISSUES = {
    "type": "object",
    "properties": {"items": {"type": "array", "items": {"$ref": "#/$defs/issue"}}, "total": WHOLE},
    "$defs": {"issue": ISSUE},
}
NEW = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 20},
        "due": {"type": "string", "format": "date"},
        "labels": {"type": "array", "items": TEXT},
        "state": {"enum": ["open", "closed"]},
        "parent": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    },
    "required": ["title"],
    "additionalProperties": False,
}
CATALOG = FakeCatalog(
    [
        entry("t:list", outputSchema=ISSUES, annotations={"readOnlyHint": True, "openWorldHint": False}),
        entry("t:create", input_schema=NEW, outputSchema=ISSUE, annotations={"destructiveHint": False}),
        entry("t:delete", input_schema={"type": "object", "properties": {"id": TEXT}, "required": ["id"]},
              annotations={"destructiveHint": True, "idempotentHint": True}),
        entry("t:raw", input_schema={"type": "object", "properties": {"verbose": {"type": "boolean"}}}),
        entry("t:far", input_schema={"$ref": "http://example.org/schema.json"}),
        entry("off:tool"),
        entry("pml:search_tools", annotations={"readOnlyHint": True}),
    ],
    [ServerStatus(name="off", state="down", reason="it crashed"), ServerStatus(name="t", state="up")],
)  # fmt: skip


def call(id_, tool, *, depends_on=(), step=None, **arguments):
    return ToolCall(id=id_, tool=tool, arguments=arguments, depends_on=depends_on, step=step or Step())


def code(id_, source, *, depends_on=(), language="python", **more):
    return CodeRun(id=id_, language=language, source=source, depends_on=depends_on, **more)


async def examined(*tasks, catalog=CATALOG, store=None, **more):
    services = PlanServices(catalog=catalog, store=store)
    report = await preflight(Workflow(id="w", tasks=tasks, **more), FakeRun(dry_run=True), services)
    return report.to_report()


async def found(*tasks, **more):
    """``(task, code, place)`` of everything that is wrong."""
    told = await examined(*tasks, **more)
    return [(one.get("task", ""), one["code"], one.get("at", "")) for one in (*told["errors"], *told["warnings"])]


LIST, MAKE = call("a", "t:list"), call("b", "t:create", title="x")
