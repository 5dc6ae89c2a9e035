"""Calls, and what the wrapper does to them."""

from pml_argument_validation.plugin import ArgumentValidation
from pml_argument_validation.settings import Settings
from pml_hookspecs import ServerStatus, ToolCall
from pml_testing.fakes import FakeCatalog, FakeRun, FakeServices, entry, outcome

DRAFTS = "http://json-schema.org/draft"

POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
    "required": ["x"],
    "additionalProperties": False,
}
READ = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 1},
        "head": {"type": "integer", "minimum": 1, "default": 10},
        "mode": {"enum": ["r", "w"]},
        "at": {"$ref": "#/$defs/Point"},
        "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}, "maxItems": 3},
        "filter": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "string"}, {"type": "null"}]},
        "kind": {"const": "file"},
    },
    "required": ["path"],
    "additionalProperties": False,
    "$defs": {"Point": POINT},
}


def call(tool="fs:read", **arguments):
    return ToolCall(id="t", tool=tool, arguments=arguments)


def services(*entries, refuse=("*",)):
    known = [ServerStatus(name=name, state="up") for name in ("fs", "s")]
    catalog = FakeCatalog(entries or [entry("fs:read", input_schema=READ)], known)
    return FakeServices(catalog=catalog, settings=Settings(refuse=tuple(refuse)))


class Next:
    def __init__(self):
        self.calls = []

    async def __call__(self, task, run):
        self.calls.append(task)
        return outcome(task.id, "ran")


async def check(task, *, schema=READ, run=None, **more):
    """The failure, or None when the call was passed on."""
    following = Next()
    wrapper = ArgumentValidation(services(entry("fs:read", input_schema=schema, **more)))
    ended = await wrapper(task, run or FakeRun(), following)
    assert bool(following.calls) == (ended.failure is None)
    return ended.failure


async def problems(task, **more):
    failure = await check(task, **more)
    return {problem["path"]: problem["message"] for problem in failure.details["problems"]}
