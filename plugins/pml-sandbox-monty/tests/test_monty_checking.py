"""Code that Monty looks at without running it."""

from __future__ import annotations

import pytest

import pml_kit.jail
from pml_hookspecs import CodeRun, Session
from pml_kit.jail import Wall
from pml_kit.offers import Verdict
from pml_sandbox_monty import Monty, Settings
from pml_testing.fakes import FakeCatalog, FakeServices, entry
from pml_testing.foresight import CheckerContract

pytestmark = pytest.mark.anyio
TEXT = {"type": "string"}
INPUT = {
    "type": "object",
    "properties": {
        "path": TEXT,
        "lines": {"type": "integer"},
        "state": {"enum": ["open", "closed"]},
        "who": {"type": "object", "properties": {"name": TEXT}, "required": ["name"]},
        "tags": {"type": "array", "items": TEXT},
        "points": {"type": "array", "items": {"type": "number"}},
    },
    "required": ["path"],
    "additionalProperties": False,
}
OUTPUT = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "items": {"type": "object", "properties": {"id": TEXT}}},
        "total": {"type": "integer"},
        "by": {"type": ["string", "null"]},
    },
}
CATALOG = FakeCatalog(
    [
        entry("fs:read", input_schema=INPUT, outputSchema=OUTPUT),
        entry("my-srv:odd-tool", input_schema={"type": "object", "properties": {"a-b": TEXT}}),
        entry("pml:own", input_schema={"type": "object"}),
    ]
)
SESSION = Session(key="k")


def code(source, **more):
    return CodeRun(id="c", language="python", source=source, **{"inputs": {"a": None, "b-c": 1}, **more})


@pytest.fixture
async def monty():
    async with Monty(Settings(workers=2), FakeServices(catalog=CATALOG)) as made:
        yield made


class TestChecker(CheckerContract):
    @pytest.fixture
    async def checker(self, monty):
        return monty

    @pytest.fixture
    def right(self):
        return [
            code(source)
            for source in (
                "return 1",
                "1 + 1",
                "",
                "a = a + 1\nreturn a",
                "x = await tools.fs.read(path='x')\nreturn x['total'] + len(x['items'])",
                "await tools.fs.read({'path': 'x', 'lines': 3})",
                "await tools('fs:read', path='x')",
                "await tools.fs('read', path='x')",
                "await tools.my_srv.odd_tool({'a-b': 'x'})",
                "await tools.not_there_yet.read(path=1)",
                "state = 'open'\nwho = {'name': 'x'}\nawait tools.fs.read(path='x', state=state, who=who)",
                "points = [1, 2]\ntags = [t for t in 'ab']\nawait tools.fs.read(path=a, tags=tags, points=points)",
                "import asyncio\nreturn await asyncio.gather(tools.fs.read(path='a'), tools.fs.read(path='b'))",
                "import re\nwords = re.findall(r'\\w+', str(a))\nreturn {w: words.count(w) for w in set(words)}",
                "s = '''one\ntwo\n'''\nreturn s.splitlines()",
                "async def half(x):\n    return x\nawait half(1)\nreturn inputs['b-c']",
                "count = 0\ndef more():\n    global count\n    count = count + 1\nmore()\nreturn count",
                "x = 1\r\nif x:\r\n    return x",
            )
        ]

    @pytest.fixture
    def wrong(self):
        return [
            (code(source), line)
            for source, line in (
                ("return (", 1),
                ("x = 1\nreturn x +", 2),
                ("return undefd", 1),
                ("x = 'a'\n\nawait tools.fs.read(path=5)", 3),
                ("await tools.fs.read(path='x', tags='abc')", 1),
                ("r = await tools.fs.read(path='x')\nreturn r['total'] + 'a'", 2),
                ("r = tools.fs.read(path='x')\nreturn r['total']", 2),
                ("for x in 5:\n    print(x)", 1),
                ("import numpy\nreturn 1", 1),
                ("def g():\n    yield 1\nreturn list(g())", 2),
                ("x = 1\nclass A(int):\n    pass", 2),
            )
        ]

    @pytest.fixture
    def endless(self):
        return code("while True:\n    pass")


async def found(monty, source, **more):
    verdict = await monty.check(code(source, **more), SESSION, within_s=20)
    assert verdict.checked == "types"
    return [(one.code, one.details["line"]) for one in verdict.problems], [one.code for one in verdict.doubts]


async def test_what_may_be_fine_when_it_runs_is_a_doubt(monty):
    assert await found(monty, "r = await tools.fs.read(path='x')\nreturn r['totl']") == ([], ["code.type"])
    assert await found(monty, "r = await tools.fs.read(path='x')\nawait tools.fs.read(path=r['by'])") == (
        [],
        ["code.type"],
    )


async def test_a_module_that_is_missed_may_be_expected_to_be(monty):
    source = "try:\n    import yaml\nexcept Exception:\n    print('none')"
    assert await found(monty, source) == ([], ["code.unsupported"])


async def test_what_monty_lacks_is_found_beside_mistakes_of_types(monty):
    problems, _ = await found(monty, "x = undefd\ndef g():\n    yield 1")
    assert problems == [("code.undefined", 1), ("code.unsupported", 3)]


async def test_each_kind_of_mistake_has_its_code(monty):
    assert (await found(monty, "return ("))[0] == [("code.syntax", 1)]
    assert (await found(monty, "return undefd"))[0] == [("code.undefined", 1)]
    assert (await found(monty, "return 'a' + 1"))[0] == [("code.type", 1)]
    assert (await found(monty, "import numpy"))[0] == [("code.unsupported", 1)]


async def test_columns_are_those_of_the_source(monty):
    verdict = await monty.check(code("x = 1\nreturn undefd"), SESSION, within_s=20)
    assert verdict.problems[0].details == {"line": 2, "column": 8}


async def test_code_without_tools_has_none(monty):
    assert (await found(monty, "await tools.fs.read(path='x')", tools=()))[0] == [("code.undefined", 1)]


async def test_tools_that_the_caller_may_not_have_are_not_told_of():
    catalog = FakeCatalog(list(CATALOG))
    catalog.denied = {"fs:read"}
    async with Monty(Settings(), FakeServices(catalog=catalog)) as monty:
        assert await found(monty, "await tools.fs.read(path=5)\nawait tools.fs.read(nothing=1)") == ([], [])


async def test_code_that_leaves_the_function_it_is_put_into_does_not_run(monty):
    for source in ("x = 1\n\x0cwhile True: pass", "x = 1\rwhile True: pass", "pass\n'''\nwhile True: pass\n'''"):
        assert not (await monty.check(code(source), SESSION, within_s=20)).unchecked


async def test_very_long_code_is_not_looked_at(monty):
    verdict = await monty.check(code("x = 1\n" * 40_000), SESSION, within_s=20)
    assert (verdict.checked, verdict.problems) == ("nothing", [])
    assert "200000" in verdict.unchecked


async def test_other_languages_are_not_looked_at(monty):
    task = CodeRun(id="c", language="typescript", source="return (")
    assert await monty.check(task, SESSION, within_s=20) == Verdict()


async def test_without_a_gateway_that_is_up_nothing_is_left_behind():
    monty = Monty(Settings(), FakeServices(catalog=CATALOG))
    verdict = await monty.check(code("return ("), SESSION, within_s=20)
    assert [one.code for one in verdict.problems] == ["code.syntax"]
    assert monty._workers is None


async def test_code_that_will_not_be_run_is_told_as_that(monkeypatch):
    wall = Wall("files", False, "not on this machine")
    monkeypatch.setattr(pml_kit.jail, "missing", lambda: [wall])
    async with Monty(Settings(jail="required"), FakeServices(catalog=CATALOG)) as monty:
        verdict = await monty.check(code("return 1"), SESSION, within_s=20)
    assert [one.code for one in verdict.problems] == ["sandbox.fault"]
